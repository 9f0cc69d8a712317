"""`plan image`: the stock images, which ones there are and making them."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from planloop.cli.options import output_option
from planloop.client import process
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.schemas.frozen import frozen

if TYPE_CHECKING:
    from planloop.containers.images.stock import StockImage
    from planloop.schemas.canonical_json import JsonObject

EXAMPLE = """
\b
Examples:
  plan image list
  plan image make python node
"""
LIST_EXAMPLE = """
\b
Examples:
  plan image list
  plan image list -o json       with the versions of the packages
"""
MAKE_EXAMPLE = """
\b
Examples:
  plan image make python
  plan image make shell python node clojure
"""


@click.group(epilog=EXAMPLE, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Build and list the stock images, which need no registry.

    They are built from Debian packages, which apt downloads but does not install on this machine.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@command.command("list", epilog=LIST_EXAMPLE)
@output_option("json", "yaml", "name")
def list_images(output: str | None) -> None:
    """List the stock images.

    `ready`: the engine has the image. `kept`: the engine has lost the image, but its archive is here; `plan image make`
    loads it. `missing`: `plan image make` builds it.
    """
    from planloop.client.render import printer
    from planloop.client.render.tables import format_table

    rows = list(_rows())
    match output:
        case "json" | "yaml":
            printer.print_structured([row.to_json() for row in rows], output)
        case "name":
            printer.print_lines(row.name for row in rows)
        case _:
            cells = [(row.name, row.state, row.short_id, row.size(), row.summary) for row in rows]
            click.echo(format_table(("name", "state", "image", "size", "about"), cells, width=printer.terminal_width()))


@command.command("make", epilog=MAKE_EXAMPLE)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def make_images(names: tuple[str, ...]) -> None:
    """Build stock images and load them into the container engine.

    They contain the newest packages that apt offers. The same packages give the same image, with the same id, on every
    machine of one architecture. An interrupted build continues where it stopped.
    """
    import anyio

    from planloop.containers.engine.engine import EngineFailed
    from planloop.containers.images.archive import ImageFailed

    try:
        anyio.run(_make, [_stock(name) for name in names])
    except (EngineFailed, ImageFailed) as failed:
        raise CommandError(ExitCode.FAILED, str(failed), failed.hint) from failed


async def _make(wanted: list[StockImage]) -> None:
    from planloop.client import engine_access
    from planloop.containers.images.stock_build import build_stock_image
    from planloop.schemas import quantities

    engine = engine_access.container_engine()
    await engine.facts()  # Check the engine first, before a build that takes a minute.
    for stock in wanted:
        steps = _Steps(f"planloop/{stock.name}")
        try:
            made = await build_stock_image(stock, engine, image_folder(), steps.tell)
        finally:
            steps.end()
        click.echo(f"{made.tag} is ready: {quantities.format_size(made.size_bytes)}")


def _stock(name: str) -> StockImage:
    from planloop.containers.images.stock import PREFIX, STOCK

    found = STOCK.get(name.removeprefix(PREFIX).removesuffix(":latest"))
    if found is None:
        raise CommandError(ExitCode.NOT_FOUND, f"no stock image `{name}`", f"stock images: {', '.join(STOCK)}")
    return found


class _Steps:
    """Print progress on stderr: one changing line on a terminal, else one line per step."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._step = ""
        self._is_terminal = sys.stderr.isatty()

    def tell(self, step: str, detail: str) -> None:
        if self._is_terminal:
            from planloop.schemas.quantities import truncate_cells

            line = f"{self._name}: {step}{f' · {detail}' if detail else ''}"
            click.echo(f"\r\x1b[K{truncate_cells(line, shutil.get_terminal_size().columns - 1)}", nl=False, err=True)
        elif step != self._step:
            click.echo(f"{self._name}: {step}", err=True)
        self._step = step

    def end(self) -> None:
        if self._is_terminal:
            click.echo("\r\x1b[K", nl=False, err=True)


@frozen
class ImageRow:
    """State of a stock image; `id` is empty if the image does not exist."""

    name: str
    state: str
    id: str
    size_bytes: int
    packages: dict[str, str]
    summary: str

    @property
    def short_id(self) -> str:
        return self.id.removeprefix("sha256:")[:12]

    def size(self) -> str:
        from planloop.schemas import quantities

        return quantities.format_size(self.size_bytes) if self.id else ""

    def to_json(self) -> JsonObject:
        return {
            "name": self.name,
            "state": self.state,
            "id": self.id,
            "size_bytes": self.size_bytes,
            "packages": dict(self.packages),
            "is": self.summary,
        }


def image_folder() -> Path:
    """Where stock images are built and their archives are kept: the user's cache."""
    cache = process.environment().get("XDG_CACHE_HOME", "")
    return (Path(cache) if Path(cache).is_absolute() else Path.home() / ".cache") / "planloop" / "images"


def _rows() -> Iterator[ImageRow]:
    from planloop.containers.images.stock import STOCK
    from planloop.containers.images.stock_build import last_built_image

    there = _in_engine([f"planloop/{name}" for name in STOCK])
    for name, stock in STOCK.items():
        made = last_built_image(image_folder(), name)
        id_, size_bytes = there.get(f"planloop/{name}", ("", 0))
        state = "ready" if id_ else "kept" if made else "missing"
        if made is not None and id_ in ("", made.id):
            yield ImageRow(f"planloop/{name}", state, made.id, made.size_bytes, made.packages, stock.summary)
        else:
            yield ImageRow(f"planloop/{name}", state, id_, size_bytes, {}, stock.summary)


def _in_engine(names: list[str]) -> dict[str, tuple[str, int]]:
    """Return id and size of the engine's images; if the engine does not answer, print a warning and return none."""
    import anyio

    from planloop.client import engine_access
    from planloop.containers.engine.engine import EngineFailed

    async def ask() -> dict[str, tuple[str, int]]:
        engine = engine_access.container_engine()
        found = {name: await engine.image(f"{name}:latest") for name in names}
        return {name: (facts.id, facts.size_bytes) for name, facts in found.items() if facts is not None}

    try:
        return anyio.run(ask)
    except EngineFailed as failed:
        click.echo(f"warning: {failed}\nhelp: {failed.hint}", err=True)
        return {}

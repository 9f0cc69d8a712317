"""`plan bench`: suites of cases, run over models, oracles and nop, and reported."""

from __future__ import annotations

from pathlib import Path

import click

from planloop.cli.options import output_option

TRACKS = ("clojure", "clojurescript", "typescript")

_SUITES = click.option(
    "--suites",
    "folders",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A folder of your own suites; left out, those in $PLANLOOP_SUITES, or ./suites.",
)

EXAMPLE = """
\b
Examples:
  plan bench list
  plan bench validate notes.yaml
  plan bench run notes.yaml --model ollama/qwen3:8b --model nop
  plan bench run tool-calling --model oracle --model nop
  plan bench run --all --suites my-suites --model openai/gpt-4o --trials 3
  plan bench resume tool-calling/2026-11-23-1
  plan bench report
  plan bench report tool-calling/2026-11-23-1
  plan bench import exercism ../exercism-clojure --track clojure
  plan explain suite-case                   what a case of a suite may say
"""


@click.group(epilog=EXAMPLE, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Measure agents with suites of cases, and compare them."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@command.command("list")
@click.argument("names", nargs=-1, metavar="[SUITE]...")
@click.option("--reports", type=click.Path(path_type=Path), default=Path("reports"), help="Where runs are kept.")
@_SUITES
@output_option("json", "yaml")
def list_suites(names: tuple[str, ...], reports: Path, folders: tuple[Path, ...], output: str | None) -> None:
    """List the suites that come with planloop and your own, or the cases of some.

    A suite is valid when `plan bench validate` found all of its cases to be as they are now.
    """
    from planloop.cli.bench_suites import list_suites

    list_suites(names, reports, output, folders)


@command.command("run")
@click.argument("names", nargs=-1, metavar="[SUITE]...")
@click.option("--all", "is_all", is_flag=True, help="Every suite that `plan bench list` shows.")
@click.option("--model", "models", multiple=True, required=True, help="oracle, nop, script:FILE or provider/model.")
@click.option("--trials", type=click.IntRange(1), help="How often each case is tried.")
@click.option("--seed", type=int, help="What every choice is drawn with.")
@click.option("--cases", default="*", metavar="GLOB", help="Only the cases whose id matches.")
@click.option("--parallel", type=click.IntRange(1), default=4, show_default=True, help="Cases at a time.")
@click.option("--deterministic", is_flag=True, help="One case at a time, so that two runs have the same events.")
@click.option("--name", "run_name", help="The run's name; left out, the date and a number.")
@click.option("--reports", type=click.Path(path_type=Path), default=Path("reports"), help="Where runs are kept.")
@_SUITES
def run(
    names: tuple[str, ...],
    is_all: bool,
    models: tuple[str, ...],
    trials: int | None,
    seed: int | None,
    cases: str,
    parallel: int,
    deterministic: bool,
    run_name: str | None,
    reports: Path,
    folders: tuple[Path, ...],
) -> None:
    """Run suites over models.

    A SUITE is a name that `plan bench list` shows, a file, or a folder with a suite.yaml. What happens is kept in
    a folder, which is named at the end: `plan bench resume` goes on with it, `plan bench report` compares it.
    A run of several suites also writes one report over all of them.
    """
    from planloop.cli.bench_run import BenchRunOptions, run_suites

    asked = BenchRunOptions(
        names, is_all, models, trials, seed, cases, 1 if deterministic else parallel, deterministic, folders
    )
    run_suites(asked, run_name, reports)


@command.command("resume")
@click.argument("run", metavar="RUN")
@click.option("--suite", help="Its suite as it is now: cases that were edited are tried again.")
@click.option("--parallel", type=click.IntRange(1), default=4, show_default=True, help="Cases at a time.")
@click.option("--reports", type=click.Path(path_type=Path), default=Path("reports"), help="Where runs are kept.")
def resume(run: str, suite: str | None, parallel: int, reports: Path) -> None:
    """Go on with a run that did not come to its end, and try again what ended in an error.

    A RUN is its folder, or SUITE/RUN. With --suite cases that were edited since are tried again, too, and no others.
    """
    from planloop.cli.bench_report import run_folder
    from planloop.cli.bench_run import resume_run

    resume_run(run_folder(run, reports), parallel, suite)


@command.command("report")
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option("--all", "is_all", is_flag=True, help="Every run that there is.")
@click.option("--name", help="The report's name; left out, it follows from the runs.")
@click.option("--reports", type=click.Path(path_type=Path), default=Path("reports"), help="Where runs are kept.")
@output_option("json", "md", "html")
def report(runs: tuple[str, ...], is_all: bool, name: str | None, reports: Path, output: str | None) -> None:
    """Compare models over runs, in one report; without RUN, list the runs that there are.

    A RUN is its folder, or SUITE/RUN. The report is written to reports/index as JSON, Markdown and a page.
    """
    from planloop.cli import bench_report

    bench_report.make_report(bench_report.ReportOptions(runs, is_all, name, reports, output))


@command.command("validate")
@click.argument("names", nargs=-1, metavar="[SUITE]...")
@click.option("--all", "is_all", is_flag=True, help="Every suite that `plan bench list` shows.")
@click.option("--cases", default="*", metavar="GLOB", help="Only the cases whose id matches.")
@click.option("--parallel", type=click.IntRange(1), default=4, show_default=True, help="Proofs at a time.")
@click.option("--reports", type=click.Path(path_type=Path), default=Path("reports"), help="Where runs are kept.")
@_SUITES
@output_option("json", "yaml", "md")
def validate(
    names: tuple[str, ...],
    is_all: bool,
    cases: str,
    parallel: int,
    reports: Path,
    folders: tuple[Path, ...],
    output: str | None,
) -> None:
    """Say whether suites measure what they say.

    A SUITE is a name that `plan bench list` shows, a file, or a folder with a suite.yaml.

    Runs what each case proves itself with: oracles must pass, mutants be killed by the checks that they name, cheats
    and doing nothing fail, and every check must kill a mutant. Exit 1 when one does not.
    """
    from planloop.cli.bench_validate import ValidateOptions, validate_suites

    validate_suites(ValidateOptions(names, is_all, cases, parallel, reports, folders), output)


@command.group("import")
def import_() -> None:
    """Make a suite of a public set of cases that lies in a folder."""


@import_.command("exercism")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--track", type=click.Choice(TRACKS), required=True, help="Which track the folder has.")
@click.option("--to", type=click.Path(path_type=Path), help="Where the suite is written; left out, exercism-TRACK.")
def import_exercism(folder: Path, track: str, to: Path | None) -> None:
    """The practice exercises of an Exercism track, with the track's own tests, none of them skipped."""
    from planloop.cli import bench_suites

    bench_suites.import_exercism(folder, track, to)


@import_.command("bfcl")
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--to", type=click.Path(path_type=Path), help="Where the suites are written; left out, bfcl.")
def import_bfcl(folder: Path, to: Path | None) -> None:
    """The single turns of the Berkeley Function Calling Leaderboard, version 4."""
    from planloop.cli import bench_suites

    bench_suites.import_bfcl(folder, to)

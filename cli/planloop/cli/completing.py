"""What a shell is offered when a person presses Tab: the names that the plan has, asked as every command asks."""

from __future__ import annotations

from collections.abc import Callable

import click
from click.shell_completion import CompletionItem

Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def names(*kinds: str) -> Completion:
    """Offers the objects of `kinds`, all without any; those of the first kind also without it, as the verb takes them.

    Nothing is offered where there is no plan, or several: a Tab is no place for an error.
    """

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del parameter
        from planloop.app.exits import Halt
        from planloop.cli.options import access_to

        try:
            found = access_to(ctx.params.get("plan")).objects(*kinds)
        except Halt:
            return []
        told = [CompletionItem(one.address, help=one.state) for one in found if one.address.startswith(incomplete)]
        first = f"{kinds[0]}/" if kinds else "task/"
        if told or not incomplete:
            return told
        bare = [(one.address.removeprefix(first), one.state) for one in found if one.address.startswith(first)]
        return [CompletionItem(name, help=state) for name, state in bare if name.startswith(incomplete)]

    return complete

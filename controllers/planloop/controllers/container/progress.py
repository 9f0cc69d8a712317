"""How far a pull or a build is, in the status now and then: each word of it would be a record."""

from __future__ import annotations

from planloop.controllers.container.writing import Page
from planloop.schemas import limits


class Progress:
    """What was said last. `say` may be called from any thread."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._said = ""

    def say(self, words: str) -> None:
        """Notes how far it is."""
        self._said = words

    async def run(self) -> None:
        """Writes it when it has changed, until cancelled. What is quick says nothing."""
        told = ""
        while True:
            await self._page.yard.clock.sleep(limits.CONTAINER_PROGRESS_S)
            if self._said != told:
                told = self._said
                await self._page.write(lambda _: {"why": told})  # noqa: B023 - awaited here

"""The web check: a person in a real browser.

    check.py      the check: starts the process that drives the browser, and takes its answer
    child.py      that process
    searching.py  which ways through the steps are tried, and what they come to; their order: ways.py
    playing.py    one way: what is done and waited for
    browser.py    Playwright and the DevTools protocol; nothing else knows of them
    sighting.py   what the browser answers → sight.py, what is seen: from here on all is pure
    finding.py    what a target may be; boards.py: where a board is; judging.py: whether an expectation holds

What a check may say is read in `planloop.schemas.web_reading`.
"""

from planloop.controllers.task.checking.web.check import check

__all__ = ["check"]

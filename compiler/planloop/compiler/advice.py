"""What is said about one diagnostic code. The advice itself is data in `advice_reading.py`, `advice_plan.py`,
`advice_rights.py` and `advice_suites.py`; how it is printed is `error_pages.py`.
"""

from __future__ import annotations

from planloop.schemas.frozen import frozen


@frozen
class Advice:
    """`why` is what is wrong, `cure` what to do; `wrong` and `right` are plan texts, empty where none can be shown."""

    why: str
    cure: str
    wrong: str = ""
    right: str = ""

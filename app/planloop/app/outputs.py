"""What a command of a plan has written so far, read from its file: the same with an owner, without, and beside one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import BinaryIO, Final

from planloop.reconciler.storing import layout

_OP: Final = re.compile(r"[\w-][\w.-]{0,199}", re.ASCII)


def opened(folder: Path, op: str) -> BinaryIO | None:
    """The file that the command of the operation `op` writes to, to be closed; `folder` is the plan's state.

    None when there is no such output: it has ended and is a blob, or it never began.
    """
    if _OP.fullmatch(op) is None:
        return None  # Never a file of another folder.
    try:
        return (layout.run_folder(folder) / f"{op}.out").open("rb")
    except OSError:
        return None

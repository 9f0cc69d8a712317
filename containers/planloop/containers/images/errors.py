"""What can be wrong with an image that we make."""

from __future__ import annotations


class ImageFailed(Exception):
    """`str()` is a sentence for people; `hint` says what to do about it, with a command where one does."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

"""What a plan means by the names of stock images."""

from __future__ import annotations

import pytest

from planloop.containers.images import stock
from tests.product import EngineErrorReason


@pytest.mark.parametrize(
    ("image", "hint"),
    [
        ("planloop/python", "run plan image make python"),
        ("planloop/node:5b1e0c77a2f4", "run plan image make node"),
        ("planloop/perl", "use one of shell, python, node, clojure, typescript, clojurescript"),
    ],
)
def test_a_stock_image_that_is_missing_is_never_asked_of_a_registry(image: str, hint: str) -> None:
    fault = stock.missing_image_error(image)

    assert fault is not None
    assert (fault.reason, fault.hint) == (EngineErrorReason.NO_IMAGE, hint)


def test_other_images_may_be_anywhere() -> None:
    assert stock.missing_image_error("python") is None
    assert stock.missing_image_error("registry.example/planloop/python") is None

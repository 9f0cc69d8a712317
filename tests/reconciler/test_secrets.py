"""Where what a plan only points at is looked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from planloop.reconciler.effects import secrets
from planloop.schemas import limits
from tests import golden_text

ENV = {"TOKEN": "from-env", "EMPTY": ""}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    kept = tmp_path / ".plan" / "secrets"
    kept.mkdir(parents=True)
    for name in ("TOKEN", "EMPTY", "only-file"):
        (kept / name).write_text(f"{name} from file\n")
    (tmp_path / "plain").write_text("beside the plan\n")
    return tmp_path


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("as it stands", "as it stands"),
        ("env:TOKEN", "from-env"),
        ("file:plain", "beside the plan"),
        ("secret:TOKEN", "from-env"),
        ("secret:EMPTY", "EMPTY from file"),
        ("secret:only-file", "only-file from file"),
    ],
)
def test_value_is_read_from_its_place_and_a_variable_precedes_a_file(folder: Path, written: str, value: str) -> None:
    assert secrets.resolve_value(written, ENV, folder) == value


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("env:NONE", "the environment variable NONE is not set"),
        ("secret:NONE", "the secret NONE is neither a variable of the environment nor the file .plan/secrets/NONE"),
        ("secret:../../plain", "never written out"),
        ("secret:.hidden", "never written out"),
        ("secret:", "never written out"),
    ],
)
def test_missing_secret_is_reported_by_its_place(folder: Path, written: str, said: str) -> None:
    with pytest.raises(secrets.SecretMissing, match=said):
        secrets.resolve_value(written, ENV, folder)


def test_replacement_of_a_secret_file_is_not_read(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "key").write_text("the owner's own")
    (folder / "link").symlink_to(outside / "key")
    (folder / "way").symlink_to(outside)
    os.mkfifo(folder / "fifo")
    (folder / "large").write_bytes(b"x")
    os.truncate(folder / "large", limits.FILE_BYTES_MAX + 1)
    (folder / ".plan/secrets/linked").symlink_to(outside / "key")

    for path in ("link", "./link", "way/key", "fifo", "large", "."):
        with pytest.raises(secrets.SecretMissing) as caught:
            secrets.resolve_value(f"file:{path}", ENV, folder)
        golden_text.said(str(caught.value), f"{path}")

    for named in (f"file:{outside}/key", "secret:linked", "file:.plan/secrets/linked"):
        assert secrets.resolve_value(named, ENV, folder) == "the owner's own"
    assert secrets.resolve_value("file:.plan/../plain", ENV, folder) == "beside the plan"

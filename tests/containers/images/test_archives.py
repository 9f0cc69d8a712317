"""What is written for an image: the same bytes for the same files, whatever order, time or owner they come with."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from planloop.containers.images.archive import (
    ImageEntry,
    ImageFailed,
    ImageSettings,
    ImageTree,
    WrittenArchive,
    data_entry,
    folder_entry,
    read_folder_tree,
    symlink_entry,
    text_entry,
    write_archive,
)
from tests import golden_text

SETTINGS = ImageSettings(
    "amd64", cmd=("sh",), env={"PATH": "/bin"}, user="1000", workdir="/work", labels={"b": "2", "a": "1"}
)


def written(tree: ImageTree, path: Path) -> WrittenArchive:
    return write_archive(path, tree, SETTINGS, lambda id_: [f"some:{id_[7:19]}"])


def members(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as opened:
        return {info.name: opened.extractfile(info).read() for info in opened}  # type: ignore[union-attr]


def layer(archive: Path) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(members(archive)["layer.tar"])) as opened:
        return list(opened)


def test_archive_holds_what_engines_read_and_the_id_is_its_configs_digest(tmp_path: Path) -> None:
    tree = ImageTree()
    tree.add(text_entry("etc/hostname", "here\n"))
    made = written(tree, tmp_path / "image.tar")

    found = members(tmp_path / "image.tar")
    (manifest,) = json.loads(found["manifest.json"])
    config = json.loads(found[manifest["Config"]])
    assert hashlib.sha256(found[manifest["Config"]]).hexdigest() == made.id.removeprefix("sha256:")
    assert manifest["RepoTags"] == [f"some:{made.id[7:19]}"]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(found['layer.tar']).hexdigest()}"]
    assert made.size_bytes == len("here\n")
    assert config["config"] == {
        "Cmd": ["sh"],
        "Env": ["PATH=/bin"],
        "Labels": {"a": "1", "b": "2"},
        "User": "1000",
        "WorkingDir": "/work",
    }


def test_equal_files_give_equal_bytes_in_any_order_of_creation(tmp_path: Path) -> None:
    ids = set()
    for number, names in enumerate((("a", "a-b", "a/b", "Ä", "z"), ("z", "a/b", "Ä", "a-b", "a"))):
        root = tmp_path / str(number)
        for name in names:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            if name == "a":
                (root / name).mkdir(exist_ok=True)
            else:
                (root / name).write_text(name)
                os.utime(root / name, (number, 86_400 * number))
        ids.add(written(read_folder_tree(root), tmp_path / f"{number}.tar").id)

    assert len(ids) == 1
    assert (tmp_path / "0.tar").read_bytes() == (tmp_path / "1.tar").read_bytes()
    names_inside = [info.name for info in layer(tmp_path / "0.tar")]
    assert names_inside == ["a", "a-b", "a/b", "z", "Ä"]


def test_modes_links_and_names_of_any_length_are_kept_and_owners_and_times_not(tmp_path: Path) -> None:
    root = tmp_path / "root"
    deep = root / ("d" * 120) / ("e" * 120)
    deep.mkdir(parents=True)
    (root / "run").write_text("#!/bin/sh\n")
    (root / "run").chmod(0o4755)
    (deep / "again").hardlink_to(root / "run")
    (root / "to").symlink_to("/elsewhere/" + "x" * 150)
    made = {info.name: info for info in layer_of(read_folder_tree(root), tmp_path)}

    again = f"{'d' * 120}/{'e' * 120}/again"
    assert (made[again].mode, made[again].size, made[again].isreg()) == (0o4755, 10, True)
    assert (made["run"].islnk(), made["run"].linkname) == (True, again)  # The first of the order has the bytes.
    assert made["to"].linkname == "/elsewhere/" + "x" * 150
    assert {(info.uid, info.gid, info.mtime, info.uname) for info in made.values()} == {(0, 0, 0, "")}


def layer_of(tree: ImageTree, tmp_path: Path) -> list[tarfile.TarInfo]:
    written(tree, tmp_path / "image.tar")
    return layer(tmp_path / "image.tar")


def test_undecodable_names_keep_their_bytes(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / os.fsdecode(b"caf\xe9")).write_text("x")

    assert [os.fsencode(info.name) for info in layer_of(read_folder_tree(root), tmp_path)] == [b"caf\xe9"]


@pytest.mark.parametrize("size", [0, 3], ids=["shorter", "longer"])
def test_a_file_that_changes_while_it_is_read_makes_no_archive(tmp_path: Path, size: int) -> None:
    tree = ImageTree()
    tree.add(ImageEntry("a", "file", 0o644, size_bytes=2, content=lambda: io.BytesIO(b"x" * size)))

    with pytest.raises(ImageFailed) as caught:
        written(tree, tmp_path / "image.tar")
    golden_text.said(str(caught.value))
    assert not (tmp_path / "image.tar").exists()


def test_special_file_is_refused_by_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(ImageFailed) as caught:
        read_folder_tree(tmp_path)
    golden_text.said(str(caught.value))


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("a/../b", "is not a path inside"),
        ("/a", "is not a path inside"),
        ("a/.wh.b", "mark deletions"),
        ("x" * 256, "a name is longer than 255 bytes"),
        ("/".join(["x" * 200] * 21), "a path is longer than 4095 bytes"),
        ("file/a", "`file/a` is inside `file`, which is a file"),
        ("link/a", "`link/a` is inside `link`, which is a symlink"),
    ],
)
def test_a_path_that_an_engine_would_write_elsewhere_is_refused(path: str, said: str) -> None:
    tree = ImageTree()
    tree.add(data_entry("file", b""))
    tree.add(symlink_entry("link", "/etc"))

    with pytest.raises(ImageFailed, match=said):
        tree.add(text_entry(path, ""))


def test_missing_folder_is_created_and_a_full_one_is_not_removed() -> None:
    tree = ImageTree()
    tree.add(text_entry("a/b/c", ""))
    tree.add(folder_entry("a", mode=0o700, owner=5))

    assert [(each.path, each.mode, each.uid) for each in tree] == [
        ("a", 0o700, 5),
        ("a/b", 0o755, 0),
        ("a/b/c", 0o644, 0),
    ]
    with pytest.raises(ImageFailed) as caught:
        tree.add(symlink_entry("a/b", "/"))
    golden_text.said(str(caught.value), "a/b")

"""Trees of an image: unpacked, thinned out, and packed into the same bytes whenever and wherever."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

from harness.artifacts.own import tree


def make(folder: Path, mtime: float) -> Path:
    (folder / "usr" / "bin").mkdir(parents=True)
    (folder / "usr" / "bin" / "tool").write_bytes(b"tool")
    (folder / "usr" / "bin" / "tool").chmod(0o4755)
    os.link(folder / "usr" / "bin" / "tool", folder / "usr" / "bin" / "twin")
    (folder / "bin").symlink_to("usr/bin")
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    os.utime(folder / "usr" / "bin" / "tool", (mtime, mtime))
    return folder


def test_a_layer_follows_from_the_tree_alone(tmp_path: Path) -> None:
    for name, mtime in (("a", 1e9), ("b", 1.5e9)):
        tree.pack(make(tmp_path / name, mtime), tmp_path / f"{name}.tar")
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()


def test_nobody_becomes_root_by_a_program_of_the_image(tmp_path: Path) -> None:
    tree.pack(make(tmp_path / "a", 1e9), tmp_path / "a.tar")
    with tarfile.open(tmp_path / "a.tar") as stream:
        entries = {entry.name: entry for entry in stream}
    assert list(entries) == ["bin", "tmp", "usr", "usr/bin", "usr/bin/tool", "usr/bin/twin"]
    assert entries["usr/bin/tool"].mode == 0o755
    assert entries["tmp"].mode == 0o1777
    assert (entries["usr/bin/twin"].islnk(), entries["usr/bin/twin"].linkname) == (True, "usr/bin/tool")
    assert entries["bin"].linkname == "usr/bin"
    assert {(entry.uid, entry.gid, entry.mtime, entry.uname) for entry in entries.values()} == {(0, 0, 0, "")}


def test_what_is_unpacked_again_is_what_was_packed(tmp_path: Path) -> None:
    tree.pack(make(tmp_path / "a", 1e9), tmp_path / "a.tar")
    tree.unpack(tmp_path / "a.tar", tmp_path / "b", wanted=lambda name: not name.startswith("tmp"))
    assert sorted(path.relative_to(tmp_path / "b").as_posix() for path in (tmp_path / "b").rglob("*")) == [
        *("bin", "usr", "usr/bin", "usr/bin/tool", "usr/bin/twin"),
    ]
    assert (tmp_path / "b" / "bin" / "twin").read_bytes() == b"tool"


def test_patterns_take_files_links_and_whole_folders(tmp_path: Path) -> None:
    root = make(tmp_path / "a", 1e9)
    tree.remove(root, ["usr/bin/t*n", "bin", "tmp"])
    assert sorted(path.relative_to(root).as_posix() for path in root.rglob("*")) == ["usr", "usr/bin", "usr/bin/tool"]
    tree.remove(root, ["us?"])
    assert list(root.iterdir()) == []


def test_what_containers_do_not_read_is_known_by_its_path() -> None:
    assert tree.read("usr/bin/ssh")
    assert not tree.read("usr/share/doc/ssh/README")
    assert not tree.read("var")
    assert tree.read("variables")

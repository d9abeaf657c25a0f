"""Layers: the program, its folders and links, over a Debian tree without what belongs to its builder."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from harness.artifacts import layer


def program(folder: Path, content: bytes = b"program", mtime: float = 1e9) -> Path:
    path = folder / "tool"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (mtime, mtime))
    return path


def test_a_layer_has_the_program_its_folders_and_links(tmp_path: Path) -> None:
    target = tmp_path / "layer.tar"
    files = {"/usr/local/bin/tool": program(tmp_path)}
    layer.write(target, files=files, links={"/bin/t": "/usr/local/bin/tool"}, directories={"/tmp": 0o1777})
    with tarfile.open(target) as stream:
        entries = {entry.name: entry for entry in stream}
        assert list(entries) == ["tmp", "usr", "usr/local", "usr/local/bin", "usr/local/bin/tool", "bin", "bin/t"]
        assert entries["usr/local/bin/tool"].mode == 0o755
        assert entries["tmp"].mode == 0o1777
        assert entries["bin/t"].linkname == "/usr/local/bin/tool"
        assert {(entry.mtime, entry.uid, entry.uname) for entry in entries.values()} == {(0, 0, "")}


def debian_tree(path: Path) -> Path:
    with tarfile.open(path, "w") as stream:
        for name, content in {
            "./etc/hostname": b"builder",
            "./etc/debian_version": b"13",
            "./usr/share/doc/nft/README": b"text",
            "./usr/share/base-passwd/passwd.master": b"root:*:0:0::/root:/bin/sh\n",
            "./usr/sbin/nft": b"nft",
        }.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(content), 1_700_000_000
            stream.addfile(entry, io.BytesIO(content))
        link = tarfile.TarInfo("./bin")
        link.type, link.linkname = tarfile.SYMTYPE, "usr/bin"
        stream.addfile(link)
        device = tarfile.TarInfo("./dev/null")
        device.type = tarfile.CHRTYPE
        stream.addfile(device)
    return path


def test_a_debian_tree_loses_what_is_of_its_builder_and_gains_its_users(tmp_path: Path) -> None:
    target = tmp_path / "layer.tar"
    layer.write(target, files={}, links={}, base=debian_tree(tmp_path / "debian.tar"), directories={})
    with tarfile.open(target) as stream:
        names = stream.getnames()
    assert "usr/sbin/nft" in names
    assert "bin" in names
    assert "etc/hostname" not in names
    assert not [name for name in names if name.startswith(("usr/share/doc", "dev"))]
    assert layer.member(target, "/etc/passwd").startswith(b"root:")


def test_a_member_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="/usr/bin/none"):
        layer.member(debian_tree(tmp_path / "debian.tar"), "/usr/bin/none")

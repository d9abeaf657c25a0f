"""OCI images and their layers: the same bytes from the same contents."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from harness.artifacts import images
from harness.artifacts.catalogue import Image
from harness.artifacts.images import Assembly, write_layout
from harness.artifacts.recipe import Ref

IMAGE = Image(tags={"1": "1"}, files={"/usr/local/bin/tool": "tool/tool"}, entrypoint=["/tool"], command=["serve"])


def program(folder: Path, content: bytes = b"program", mtime: float = 1e9) -> Path:
    path = folder / "tool"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (mtime, mtime))
    return path


def make(folder: Path, mtime: float) -> tuple[str, Path]:
    files = program(folder / "files", mtime=mtime).parent
    target = folder / "image"
    target.mkdir()
    assembly = Assembly(Ref("image/tool", "1"), IMAGE, {Ref("tool", "1"): ("gomod-1", files)})
    return str(assembly.make(target, folder / "log")["digest"]), target


def test_the_digest_follows_from_the_contents_alone(tmp_path: Path) -> None:
    first, _ = make(tmp_path / "a", 1e9)
    second, _ = make(tmp_path / "b", 1.5e9)
    assert first == second


def test_the_layout_holds_what_its_descriptors_promise(tmp_path: Path) -> None:
    digest, target = make(tmp_path, 1e9)
    index = json.loads((target / "index.json").read_text())
    assert index["manifests"][0]["digest"] == digest
    for blob in (target / "blobs" / "sha256").iterdir():
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name
    manifest = json.loads((target / "blobs" / "sha256" / digest.removeprefix("sha256:")).read_text())
    for descriptor in (manifest["config"], *manifest["layers"]):
        blob = target / "blobs" / "sha256" / descriptor["digest"].removeprefix("sha256:")
        assert blob.stat().st_size == descriptor["size"]
    config = json.loads(
        (target / "blobs" / "sha256" / manifest["config"]["digest"].removeprefix("sha256:")).read_text()
    )
    assert config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]
    assert config["config"]["Entrypoint"] == ["/tool"]
    assert config["config"]["Cmd"] == ["serve"]
    assert "/usr/local/bin" in config["config"]["Env"][0]


def test_an_image_changes_with_the_programs_in_it(tmp_path: Path) -> None:
    ref = Ref("image/tool", "1")
    before = Assembly(ref, IMAGE, {Ref("tool", "1"): ("gomod-1", tmp_path)})
    after = Assembly(ref, IMAGE, {Ref("tool", "1"): ("gomod-2", tmp_path)})
    assert before.ingredients() != after.ingredients()


def test_a_layout_is_written_into_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    made = tmp_path / "layer.tar"
    images.write_layer(made, files={}, links={}, directories={})
    assert write_layout(tmp_path / "out", [made], {"User": "65535:65535"}).startswith("sha256:")
    assert not made.exists()


def test_a_layer_has_the_program_its_folders_and_links(tmp_path: Path) -> None:
    target = tmp_path / "layer.tar"
    files = {"/usr/local/bin/tool": program(tmp_path)}
    images.write_layer(target, files=files, links={"/bin/t": "/usr/local/bin/tool"}, directories={"/tmp": 0o1777})
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
    images.write_layer(target, files={}, links={}, base=debian_tree(tmp_path / "debian.tar"), directories={})
    with tarfile.open(target) as stream:
        names = stream.getnames()
    assert "usr/sbin/nft" in names
    assert "bin" in names
    assert "etc/hostname" not in names
    assert not [name for name in names if name.startswith(("usr/share/doc", "dev"))]
    assert images.archive_member(target, "/etc/passwd").startswith(b"root:")


def test_a_member_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="/usr/bin/none"):
        images.archive_member(debian_tree(tmp_path / "debian.tar"), "/usr/bin/none")

"""Images: the same contents give the same digest, whenever and wherever, and say how to run them."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from harness.artifacts import layer
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
    layer.write(made, files={}, links={}, directories={})
    assert write_layout(tmp_path / "out", [made], {"User": "65535:65535"}).startswith("sha256:")
    assert not made.exists()

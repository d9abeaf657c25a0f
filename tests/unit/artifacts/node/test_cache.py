"""The archive of a node image: the layer, and how it runs."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

from harness.artifacts.node import cache


def test_the_archive_holds_the_layer_and_how_it_runs(tmp_path: Path) -> None:
    layer = tmp_path / "layer.tar"
    layer.write_bytes(b"layer")

    cache.write_archive(tmp_path / "image.tar", layer, "vmatrix/kind-node:v1-abc")

    with tarfile.open(tmp_path / "image.tar") as archive:
        held = {name: (archive.extractfile(name) or layer.open("rb")).read() for name in archive.getnames()}
    (manifest,) = json.loads(held["manifest.json"])
    config = json.loads(held[manifest["Config"]])
    assert manifest["RepoTags"] == ["vmatrix/kind-node:v1-abc"]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(held[manifest['Layers'][0]]).hexdigest()}"]
    assert config["config"]["Entrypoint"] == ["/usr/local/bin/entrypoint", "/sbin/init"]
    assert config["config"]["StopSignal"] == "SIGRTMIN+3"

"""Small archives of container images, as docker and skopeo write them."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
CONFIG = "application/vnd.oci.image.config.v1+json"


def write_tar(target: Path, files: Mapping[str, bytes]) -> Path:
    """Write a tar archive of files."""
    with tarfile.open(target, "w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return target


def _layer() -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        entry = tarfile.TarInfo("hello")
        entry.size = 5
        tar.addfile(entry, io.BytesIO(b"hello"))
    return raw.getvalue()


def _config(layer: bytes) -> bytes:
    digest = f"sha256:{hashlib.sha256(layer).hexdigest()}"
    rootfs = {"type": "layers", "diff_ids": [digest]}
    return json.dumps({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": rootfs}).encode()


def docker_files(*names: str, images: int = 1) -> dict[str, bytes]:
    """Return the files of what `docker save` writes."""
    layer = _layer()
    entry = {"Config": "config.json", "RepoTags": list(names) or None, "Layers": ["layer.tar"]}
    manifest = json.dumps([entry] * images).encode()
    return {"manifest.json": manifest, "config.json": _config(layer), "layer.tar": layer}


def oci_files(annotations: Mapping[str, str] | None = None, *, kind: str = MANIFEST, more: Sequence[Any] = ()) -> Any:
    """Return the files of an OCI layout of one image."""
    layer = _layer()
    blobs: dict[str, bytes] = {}

    def blob(media_type: str, content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": blob(CONFIG, _config(layer)),
        "layers": [blob(LAYER, layer)],
    }
    entry = {**blob(MANIFEST, json.dumps(manifest).encode()), "mediaType": kind, "annotations": dict(annotations or {})}
    index = {"schemaVersion": 2, "manifests": [entry, *more]}
    return {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": json.dumps(index).encode(), **blobs}


def write_layout(target: Path, files: Mapping[str, bytes]) -> Path:
    """Write files into a folder."""
    for name, content in files.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return target

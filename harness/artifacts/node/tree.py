"""A node's root file system: Debian, over it kind's own files, over these the programs and what is written for them.

The steps are those of kind's base image (images/base/Dockerfile in its sources).
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from harness import proc
from harness.artifacts import toolchain
from harness.artifacts.node.contents import ENABLED
from harness.artifacts.recipe import ArtifactLimits
from harness.errors import InfraError

MODULE = "sigs.k8s.io/kind"
SPEC_SECONDS = 30.0  # a program that prints JSON and ends
HOOK = {"path": "/kind/bin/mount-product-files.sh"}
EXECUTABLE = ("usr/local/bin/", "kind/bin/")
CONTAINERD = "etc/containerd/config.toml"
PAUSE = re.compile(r'(sandbox_image = )"[^"]*"')


def kind_files(version: str, limits: ArtifactLimits) -> Path:
    """Return kind's files for a node, from its sources in Go's module cache.

    Raises:
        InfraError: the module proxy does not give them out.
    """
    hint = "check that the Go module proxy (GOPROXY) can be reached"
    with proc.failing_as_infra(f"the sources of kind {version} could not be downloaded", hint=hint):
        found = toolchain.find("1.21", limits).download(f"{MODULE}@v{version}")
    folder = Path(found["Dir"]) / "images/base/files"
    if not folder.is_dir():
        raise InfraError(f"kind {version} has no files in images/base/files", paths=[folder.parent])
    return folder


def arrange(root: Path, files: Path, programs: Mapping[str, Path], texts: Mapping[str, str], *, pause: str) -> None:
    """Make a Debian root file system a node's.

    Args:
        root: the file system.
        files: kind's own, see `kind_files`.
        programs, texts: absolute path in the node -> the file to copy, or its text.
        pause: the image of pods' sandboxes.
    """
    _copy(files, root)
    for path, source in programs.items():
        target = _parent(root, path)
        shutil.copyfile(source, target)
        target.chmod(0o755)
    for path, text in texts.items():
        _parent(root, path).write_text(text, encoding="utf-8")
    (root / "etc/kubernetes/manifests").mkdir(parents=True, exist_ok=True)
    with (root / "etc/systemd/journald.conf").open("a", encoding="utf-8") as journald:
        journald.write("[Journal]\nReadKMsg=no\n")
    _enable(root)
    _configure(root, pause)
    (root / "etc/resolv.conf").unlink(missing_ok=True)


def _copy(files: Path, root: Path) -> None:
    """Copy kind's files with the modes that its image gives them: a module's are all read-only."""
    for source in sorted(files.rglob("*")):
        name = str(source.relative_to(files))
        if source.is_dir():
            (root / name).mkdir(parents=True, exist_ok=True)
            continue
        target = _parent(root, name)
        shutil.copyfile(source, target)
        target.chmod(0o755 if name.startswith(EXECUTABLE) else 0o644)


def _enable(root: Path) -> None:
    wants = root / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True, exist_ok=True)
    for unit in ENABLED:
        link = wants / unit
        link.unlink(missing_ok=True)
        link.symlink_to(f"/etc/systemd/system/{unit}")


def _configure(root: Path, pause: str) -> None:
    """Name the sandbox image, and write what every container starts from: no limits of its own, kind's hook."""
    config = root / CONTAINERD
    text, count = PAUSE.subn(rf'\1"{pause}"', config.read_text(encoding="utf-8"))
    if count != 1:
        raise InfraError("kind's containerd configuration does not set sandbox_image", paths=[config])
    config.write_text(text, encoding="utf-8")
    made = proc.run([root / "usr/local/bin/ctr", "oci", "spec"], timeout=SPEC_SECONDS)
    spec = json.loads(made.stdout)
    spec["process"].pop("rlimits", None)
    spec.setdefault("hooks", {}).setdefault("createContainer", []).append(HOOK)
    (root / "etc/containerd/cri-base.json").write_text(json.dumps(spec), encoding="utf-8")


def _parent(root: Path, path: str) -> Path:
    """Return a path in a node as one of this host, its folder made."""
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_symlink():  # never write through a link that leads out of the node
        os.unlink(target)
    return target

"""The image's file system, as a container has it: its user, nothing to write to but /tmp, no capability."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import proc
from harness.artifacts.store import FILES, Artifact

COMMAND_SECONDS = 120.0  # against hanging
MOUNTS = """\
set -e
root=$1; shift
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
mount -o remount,bind,ro "$root"
exec chroot "$root" "$@"
"""
AS_USER = ("--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs")


def blob(layout: Path, digest: str) -> Path:
    """Return the file of a blob in an image layout."""
    return layout / "blobs" / digest.replace(":", "/")


def unpack(image: Artifact, target: Path) -> dict[str, object]:
    """Unpack the layers, as a container engine does; return how the image says that it is run."""
    layout = image.directory / FILES
    manifest = json.loads(blob(layout, str(image.facts["digest"])).read_text(encoding="utf-8"))
    for layer in manifest["layers"]:
        with tarfile.open(blob(layout, layer["digest"])) as stream:
            stream.extraction_filter = lambda entry, _: entry
            stream.extractall(target)  # noqa: S202 - our own image
    for folder in ("proc", "dev"):  # which a container's runtime makes, too
        (target / folder).mkdir(exist_ok=True)
    found = json.loads(blob(layout, manifest["config"]["digest"]).read_text(encoding="utf-8"))
    return dict(found["config"])


@dataclass(frozen=True)
class Container:
    """Runs commands in an unpacked image, in namespaces that end with them."""

    root: Path
    config: dict[str, object]

    def call(self, *words: str, check: bool = True, stdin: str | None = None) -> proc.Completed:
        """Run a command with the image's user and environment."""
        environment = self.config["Env"]
        assert isinstance(environment, list)
        user, _, group = str(self.config["User"]).partition(":")
        outside = ["unshare", "--mount", "--pid", "--fork", "--net", "sh", "-c", MOUNTS, "sh", str(self.root)]
        inside = ["setpriv", "--reuid", user, "--regid", group, *AS_USER, "env", "-i", *environment, *words]
        return proc.run([*outside, *inside], timeout=COMMAND_SECONDS, check=check, stdin=stdin)

    def run(self, *words: str) -> str:
        """Run the image as it is run without a command of one's own, with arguments."""
        entrypoint = self.config["Entrypoint"]
        assert isinstance(entrypoint, Sequence)
        return self.call(*entrypoint, *words).stdout

"""The lowest layer of an image of several: Debian packages, without what the image's program never reads.

Packages are unpacked, not installed. What their scripts would make, and the program needs, is made here: the user
database, the bundle of certificates, compiled Python files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness.artifacts import debian
from harness.artifacts.catalogue import LayeredImage, architecture
from harness.artifacts.images import FOLDERS
from harness.artifacts.layer import USERS
from harness.artifacts.own import bytecode, tree
from harness.artifacts.recipe import ArtifactLimits, Ref
from harness.files import sha256_of

FORMAT = 1  # raise it when the way this layer is made changes
LAYER = "layer.tar"
PYTHON = "usr/lib/python{}"
HOME = "/tmp"  # noqa: S108 - in the image, whose other folders cannot be written


@dataclass(frozen=True)
class DebianLayer:
    """The layer of Debian packages of one image."""

    ref: Ref
    image: LayeredImage
    limits: ArtifactLimits

    @property
    def source(self) -> str:
        """Return the source's name."""
        return "debian"

    @property
    def seconds(self) -> float:
        """Return how long it is expected to take."""
        return debian.SECONDS

    def ingredients(self) -> Mapping[str, Any]:
        """Return all that the layer depends on, but for the day: Debian's archive has one version of a package."""
        fields = {"debian", "suite", "without", "links", "joined", "users"}
        image = self.image.model_dump(include=fields)
        return {"format": FORMAT, "image": image, "python": self.image.python.version, "arch": architecture()}

    def make(self, target: Path, log: Path) -> Mapping[str, Any]:
        """Write the layer; return its digest."""
        with TemporaryDirectory(dir=target.parent) as temporary:
            base, root = Path(temporary) / "debian.tar", Path(temporary) / "tree"
            debian.unpack(self.image.debian, base, log, self.image.suite, self.limits.packages)
            tree.unpack(base, root, wanted=tree.read)
            tree.remove(root, self.image.without)
            self.finish(root)
            stdlib = PYTHON.format(self.image.python.version)
            bytecode.compile_all(root, [(root / stdlib, f"/{stdlib}")], log)
            tree.pack(root, target / LAYER)
        return {"digest": f"sha256:{sha256_of(target / LAYER)}"}

    def finish(self, root: Path) -> None:
        """Make what the scripts of packages would make."""
        for path, mode in FOLDERS.items():
            (root / path[1:]).mkdir(parents=True, exist_ok=True)
            (root / path[1:]).chmod(mode)
        for master, path in USERS.items():
            lines = (root / master).read_text(encoding="utf-8")
            form = "{0}:x:{1}:{1}::{2}:/usr/sbin/nologin\n" if path.endswith("passwd") else "{0}:x:{1}:\n"
            lines += "".join(form.format(name, number, HOME) for name, number in self.image.users.items())
            (root / path).write_text(lines, encoding="utf-8")
        for path, pattern in self.image.joined.items():
            parts = [part.read_bytes() for part in sorted(root.glob(pattern))]
            (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            (root / path[1:]).write_bytes(b"".join(parts))
        for path, destination in self.image.links.items():
            (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            (root / path[1:]).unlink(missing_ok=True)
            (root / path[1:]).symlink_to(destination)

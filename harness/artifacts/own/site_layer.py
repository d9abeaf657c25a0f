"""The middle layer: the Python packages that vmatrix needs, from wheels of a lock, compiled by the image's Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness.artifacts.catalogue import HERE, LayeredImage, architecture
from harness.artifacts.own import bytecode, tree, wheels
from harness.artifacts.own.debian_layer import LAYER
from harness.artifacts.recipe import ArtifactLimits, Ref
from harness.files import sha256_of

FORMAT = 1  # raise it when the way this layer is made changes
SITE = "usr/local/lib/python{}/dist-packages"  # where Debian's Python looks for what is not Debian's
COMMANDS = "usr/local/bin"
SECONDS = 60.0  # expected, for the progress display


@dataclass(frozen=True)
class SiteLayer:
    """The layer of wheels of one image. `inputs`: the Debian layer -> its cache key and the folder of its files."""

    ref: Ref
    image: LayeredImage
    inputs: Mapping[Ref, tuple[str, Path]]
    limits: ArtifactLimits

    @property
    def source(self) -> str:
        """Return the source's name."""
        return "wheels"

    @property
    def seconds(self) -> float:
        """Return how long it is expected to take."""
        return SECONDS

    def ingredients(self) -> Mapping[str, Any]:
        """Return all that the layer depends on; of the Debian layer only which Python it has."""
        return {
            "format": FORMAT,
            "python": self.image.python.model_dump(),
            "suite": self.image.suite,
            "lock": sha256_of(HERE / self.image.python.lock),
            "arch": architecture(),
        }

    def make(self, target: Path, log: Path) -> Mapping[str, Any]:
        """Write the layer; return its digest."""
        python = self.image.python
        with TemporaryDirectory(dir=target.parent) as temporary:
            root = Path(temporary) / "tree"
            site = root / SITE.format(python.version)
            wheels.install(HERE / python.lock, python.version, site, log, self.limits.packages)
            wheels.clean(site)
            wheels.scripts(site, root / COMMANDS)
            tree.remove(site, python.without)
            ((_, folder),) = self.inputs.values()
            interpreter = bytecode.interpreter(folder / LAYER, Path(temporary) / "python")
            bytecode.compile_all(interpreter, [(site, f"/{SITE.format(python.version)}")], log)
            tree.pack(root, target / LAYER)
        return {"digest": f"sha256:{sha256_of(target / LAYER)}"}

"""The image of vmatrix itself: the kept layers, and above them vmatrix's own files, compiled in a second or two.

`python3 -m harness.artifacts.own.image FOLDER` lays the files of the vmatrix that runs into a folder as the image has
them, for deploy/operator/Dockerfile, which puts those of a checkout above an image that is there.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness import __version__, paths
from harness.artifacts.catalogue import LayeredImage, architecture
from harness.artifacts.images import PATH, write_layout
from harness.artifacts.own import sources
from harness.artifacts.own.layers import (
    COMMANDS,
    HOME,
    LAYER,
    SITE,
    compile_all,
    image_python,
    pack_layer,
    write_scripts,
)
from harness.artifacts.recipe import Ref
from harness.errors import InfraError

FORMAT = 1  # raise it when the way the image is put together changes
SECONDS = 5.0  # expected, for the progress display


@dataclass(frozen=True)
class Stack:
    """vmatrix's image. `inputs`: its lower layers, in order -> their cache keys and the folders of their files."""

    ref: Ref
    image: LayeredImage
    inputs: Mapping[Ref, tuple[str, Path]]

    @property
    def source(self) -> str:
        """Return the source's name."""
        return "image"

    @property
    def seconds(self) -> float:
        """Return how long it is expected to take when the layers are there."""
        return SECONDS

    def ingredients(self) -> Mapping[str, Any]:
        """Return the entry, the recipes of the layers and all of our files."""
        return {
            "format": FORMAT,
            "image": self.image.model_dump(),
            "sources": sources.our_digest(),
            "inputs": {str(ref): found for ref, (found, _) in self.inputs.items()},
            "arch": architecture(),
        }

    def make(self, target: Path, log: Path) -> Mapping[str, Any]:
        """Write the image layout; return its digest and the bytes of its layers.

        Raises:
            InfraError: our files changed meanwhile, or do not compile.
        """
        layers = [folder / LAYER for _, folder in self.inputs.values()]
        with TemporaryDirectory(dir=target.parent) as temporary:
            root, made = Path(temporary) / "tree", Path(temporary) / LAYER
            there = f"/{SITE.format(self.image.python.version)}"
            lay_out(root, self.image.python.version)
            python = image_python(layers[0], Path(temporary) / "python")
            compile_all(python, [(root / there[1:], there)], log)
            pack_layer(root, made)
            kept = [_linked(path, Path(temporary) / f"{number}.tar") for number, path in enumerate(layers)]
            size = sum(path.stat().st_size for path in (*kept, made))
            digest = write_layout(target, [*kept, made], _config(self.image, self.ref.version))
        if sources.digest(sources.ours()) != sources.our_digest():
            raise InfraError(f"{self.ref} was changed while its image was made", hint="do it again")
        return {"digest": digest, "size": size}


def _copy(site: Path) -> None:
    """Lay our files, and what a wheel says about itself, as an installed wheel has them."""
    for name, path in sources.ours().items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, site / name)
        (site / name).chmod(0o755 if os.access(path, os.X_OK) else 0o644)
    info = site / f"{sources.NAME}-{__version__}.dist-info"
    info.mkdir()
    for name, text in sources.metadata(paths.packaged_dir()).items():
        (info / name).write_text(text, encoding="utf-8")


def _linked(layer: Path, target: Path) -> Path:
    """Give a kept layer a second name, which the image's folder takes."""
    os.link(layer, target)
    return target


def _config(image: LayeredImage, revision: str) -> dict[str, Any]:
    environment = {"PATH": PATH, "HOME": HOME, "LANG": "C.UTF-8", "VMATRIX_REVISION": revision}
    return {
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "WorkingDir": HOME,
        "Entrypoint": image.entrypoint,
        "Cmd": image.command,
        "User": image.user,
    }


def lay_out(folder: Path, python: str) -> None:
    """Lay the files and commands of the vmatrix that runs into a folder, as the image of a Python has them."""
    there = SITE.format(python)
    _copy(folder / there)
    write_scripts(folder / there, folder / COMMANDS)


if __name__ == "__main__":
    lay_out(Path(sys.argv[1]), f"{sys.version_info.major}.{sys.version_info.minor}")

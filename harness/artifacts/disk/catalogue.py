"""Catalogue of disk images (matrix/images.yml), and their recipes.

A recipe is vm-templates/images/NAME/recipe.yml and the tree `files/` beside it. It may name another as its base;
lists are joined, files of the recipe win over those of its base.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from harness.errors import BadInput
from harness.paths import packaged_dir
from harness.spec.base import Model, Name
from harness.spec.loader import load_file, load_layered
from harness.spec.models import DiskImage
from harness.spec.models.artifacts import ImagesFile

# Part of every image's key: raise it when a change of the builder changes what comes out.
BUILDER = 2
BOOTABLE = "bootable"  # the recipe that makes any other one bootable
RECIPES = Path("vm-templates", "images")


@dataclass(frozen=True)
class ImageCatalogue:
    """Disk images in the file's order."""

    images: tuple[DiskImage, ...]

    def find(self, name: str) -> DiskImage:
        """Return an image by its name. Raises BadInput when there is none; says which name is near."""
        images = {image.name: image for image in self.images}
        if name in images:
            return images[name]
        near = difflib.get_close_matches(name, images, n=1)
        raise BadInput(
            f"there is no disk image named {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""),
            hint=f"known images: {', '.join(images)}; see `vmatrix image list`",
        )


def load(file: Path) -> ImageCatalogue:
    """Load a catalogue, over the packaged one. Raises BadInput with one line per error: file and line."""
    return ImageCatalogue(load_layered(file.parent, file.name, ImagesFile).images)


class RecipeFile(Model):
    """recipe.yml: Debian packages, units to mask and to enable, paths not to install, globs to remove afterwards.

    kernel_arguments: of bootable images.
    """

    base: Name | None = None
    suite: Name | None = None
    packages: tuple[str, ...] = ()
    mask: tuple[str, ...] = ()
    enable: tuple[str, ...] = ()
    kernel_arguments: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


@dataclass(frozen=True)
class DiskRecipe:
    """A recipe with its bases joined in. `files` are directory trees to copy over the root, later ones win.

    bootable: it includes the recipe BOOTABLE, and boot loaders are installed on the disk.
    """

    name: str
    suite: str
    packages: tuple[str, ...]
    mask: tuple[str, ...]
    exclude: tuple[str, ...]
    remove: tuple[str, ...]
    files: tuple[Path, ...]
    enable: tuple[str, ...] = ()
    kernel_arguments: tuple[str, ...] = ()
    bootable: bool = False

    def key(self, *, size_gib: int) -> str:
        """Return a hash over everything that decides what the image contains, but for the packages' versions."""
        digest = hashlib.sha256()
        facts: list[object] = [self.suite, self.packages, self.mask, self.exclude, self.remove, size_gib, BUILDER]
        if self.enable or self.bootable:  # what most recipes lack is not part of their keys
            facts += [self.enable, self.kernel_arguments, self.bootable]
        digest.update(json.dumps(facts).encode())
        for tree in self.files:
            for path in sorted(p for p in tree.rglob("*") if p.is_file()):
                mode = path.stat().st_mode & 0o777
                digest.update(f"\0{path.relative_to(tree)}\0{mode:o}\0".encode() + path.read_bytes())
        return digest.hexdigest()


def load_recipe(recipes: Path, name: str, *, bootable: bool = False) -> DiskRecipe:
    """Load a recipe and its bases.

    Args:
        recipes: the folder that holds one folder per recipe; packaged recipes can be named, too.
        bootable: join the recipe BOOTABLE too, last.

    Raises:
        BadInput: a file is missing or wrong, the bases form a cycle, or no suite is named.
    """
    chain: list[tuple[str, RecipeFile]] = []
    following: str | None = name
    while following is not None:
        if following in [earlier for earlier, _ in chain]:
            raise BadInput(f"recipe {name}: its bases form a cycle, back to {following}", paths=[recipes / name])
        chain.insert(0, (following, load_file(_recipe_folder(recipes, following) / "recipe.yml", RecipeFile)[0]))
        following = chain[0][1].base
    if bootable:
        chain.append((BOOTABLE, load_file(_recipe_folder(recipes, BOOTABLE) / "recipe.yml", RecipeFile)[0]))
    suites = [part.suite for _, part in chain if part.suite is not None]
    if not suites:
        raise BadInput(f"recipe {name} has no `suite`", hint="suite: trixie", paths=[recipes / name / "recipe.yml"])
    trees = [_recipe_folder(recipes, folder) / "files" for folder, _ in chain]
    joined = {
        each: tuple(dict.fromkeys(item for _, part in chain for item in getattr(part, each)))
        for each in ("packages", "mask", "enable", "kernel_arguments", "exclude", "remove")
    }
    files = tuple(tree for tree in trees if tree.is_dir())
    return DiskRecipe(name=name, suite=suites[-1], files=files, bootable=bootable, **joined)


def _recipe_folder(recipes: Path, name: str) -> Path:
    """Return a recipe's folder: among the project's, or else the packaged one, if there is one."""
    own, packaged = recipes / name, packaged_dir() / RECIPES / name
    return own if own.is_dir() or not packaged.is_dir() else packaged

"""The images of upstream's specs: which a release names, which of them vmatrix has, and why it lacks the others.

e2e_images.yml has the list of every release that `e2e.test --list-images` was asked of.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.artifacts.catalogue import HERE, IMAGE_PREFIX, Catalogue, minor_of, numbers
from harness.artifacts.recipe import Ref
from harness.errors import BadInput
from harness.yaml_text import LOADER

IMAGES = HERE / "e2e_images.yml"
OWN = ("e2e-test-images/agnhost", "e2e-test-images/busybox")  # that the catalogue names for each release
UNKNOWN = "vmatrix has no recipe for it"
Lines = Annotated[list[str], Field(min_length=1)]


class E2EImages(BaseModel):
    """The file.

    missing: pattern of repository:tag -> why vmatrix does not have it.  lists: release -> its images.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    missing: dict[str, str]
    lists: dict[str, Lines]

    def why_missing(self, image: str) -> str:
        """Return why vmatrix does not have an image (repository:tag)."""
        return next((why for pattern, why in self.missing.items() if fnmatch.fnmatchcase(image, pattern)), UNKNOWN)


@dataclass(frozen=True)
class Listed:
    """A release's images, as repository:tag: those that vmatrix has, and the others with the reason."""

    made: tuple[str, ...]
    missing: dict[str, str]


@cache
def load(path: Path = IMAGES) -> E2EImages:
    """Read the file. Raises BadInput when it does not fit."""
    try:
        return E2EImages.model_validate(yaml.load(path.read_text(encoding="utf-8"), LOADER))  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValidationError) as error:
        raise BadInput(f"{path.name} is not a valid list of images", detail=str(error), paths=[path]) from error


def listed(catalogue: Catalogue, version: str) -> Listed:
    """Return the images that the specs of a Kubernetes version name.

    Of a version whose list is not known, these are what the newest patch of its minor names, and its own agnhost and
    busybox; nothing, if no list of its minor is known.
    """
    known = load()
    images = known.lists.get(version, [])
    if not images:
        same = [each for each in known.lists if minor_of(each) == minor_of(version)]
        release = catalogue.kubernetes.get(version)
        own = [f"{name}:{tag}" for name, tag in release.images.items() if name in OWN] if release is not None else []
        images = sorted({*known.lists[max(same, key=numbers)], *own}) if same else []
    made = tuple(image for image in images if has(catalogue, image))
    return Listed(made, {image: known.why_missing(image) for image in images if image not in made})


def has(catalogue: Catalogue, image: str) -> bool:
    """Tell whether vmatrix makes an image (repository:tag)."""
    repository, _, tag = image.rpartition(":")
    return repository in catalogue.images and tag in catalogue.tags(repository)


def refs(catalogue: Catalogue, version: str) -> tuple[Ref, ...]:
    """Return the images of a version's specs that vmatrix makes, to be obtained and pushed."""
    pairs = (image.rpartition(":") for image in listed(catalogue, version).made)
    return tuple(Ref(IMAGE_PREFIX + repository, tag) for repository, _, tag in pairs)

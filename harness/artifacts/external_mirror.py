"""A mirror and a registry that others serve: which programs, container images and disk images they have.

They are asked only where they answer: one that guests alone reach is as one that has nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from harness.artifacts.catalogue import IMAGE_PREFIX
from harness.artifacts.disk.cache import CachedImage
from harness.artifacts.download import text, trouble
from harness.artifacts.recipe import Ref
from harness.artifacts.registry import digest_in
from harness.errors import InfraError
from harness.model import Mirror

HINT = "vmatrix artifacts serve"


def missing_artifacts(mirror: Mirror, refs: Iterable[Ref]) -> list[Ref]:
    """Return those programs and images that guests would not find at a mirror and its registry."""
    unique = list(dict.fromkeys(refs))
    has_files = trouble(f"{mirror.http}/healthz") is None
    has_images = _registry_answers(mirror.registry)
    return [ref for ref in unique if not (_image(mirror, ref, has_images) or _program(mirror, ref, has_files))]


def disk_image(images_url: str, name: str, key: str) -> CachedImage | None:
    """Return the newest disk image of a name that a mirror serves; None unless it was made for this very key.

    Args:
        images_url: the address below which the mirror has disk images.
    """
    try:
        image = CachedImage(**json.loads(text(f"{images_url}/{name}.json", hint=HINT)))
    except (InfraError, ValueError, TypeError):  # not vmatrix's mirror, or not in reach
        return None
    return image if (image.name, image.key) == (name, key) else None


def _image(mirror: Mirror, ref: Ref, answers: bool) -> bool:
    if not (answers and ref.name.startswith(IMAGE_PREFIX)):
        return False
    return digest_in(mirror.registry, ref.name.removeprefix(IMAGE_PREFIX), ref.version) != ""


def _program(mirror: Mirror, ref: Ref, answers: bool) -> bool:
    if not answers or ref.name.startswith(IMAGE_PREFIX):
        return False
    return trouble(f"{mirror.http}/bin/{ref.name}/{ref.version}/{ref.name}.tar") is None


def _registry_answers(registry: str) -> bool:
    try:
        digest_in(registry, "vmatrix", "none")
    except InfraError:
        return False
    return True

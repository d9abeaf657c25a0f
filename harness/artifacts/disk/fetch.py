"""Published disk images: their checksum, from matrix/images.yml or from the list beside the image; who has them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from harness.artifacts.download import ABSENT, ListedFile, entries, listed, text, trouble
from harness.errors import BadInput
from harness.spec.image_mirror import ImageMirror
from harness.spec.models import DiskImage, UrlSource

HINT = "check matrix/images.yml"
SHOWN = 8  # names of a list that a message repeats
MIRROR_HINT = "add the file to the mirror, or change image_mirror (vmatrix config)"


def checksum(source: UrlSource, *, hint: str = HINT) -> str:
    """Return an image's checksum as "sha256:HEX" or "sha512:HEX", as DataVolumes take it.

    Args:
        hint: what to do when there is no list, or it lacks the image.

    Raises:
        BadInput: the list does not name the image.  InfraRetriable: the list could not be downloaded.
    """
    if source.checksum is not None:
        return source.checksum
    url, path = source.checksum_url or "", unquote(urlsplit(source.url).path)
    content = text(url, hint=hint)
    found = listed(content, path)
    if found is None:
        raise _not_listed(url, PurePosixPath(path).name, entries(content), hint)
    return found


def _not_listed(url: str, name: str, every: Sequence[ListedFile], hint: str) -> BadInput:
    """Return the refusal of a list that does not say an image's checksum, with what it has."""
    same = [one.name or "a digest alone" for one in every if PurePosixPath(one.name or name).name == name]
    if same:
        return BadInput(f"{url} lists several checksums of {name} that differ: {', '.join(same)}", hint=hint)
    names = list(dict.fromkeys(one.name for one in every))
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    has = f"it has {', '.join(names[:SHOWN])}{more}" if names else "it has no SHA-256 or SHA-512 checksum at all"
    return BadInput(f"{url} lists no checksum of {name}; {has}", hint=hint)


def mirrored(mirror: ImageMirror, image: DiskImage) -> DiskImage:
    """Return an image with its mirror's addresses.

    Raises:
        BadInput: the mirror answers that it lacks the image or its list. If it cannot be asked from here, an import may
            still reach it.
    """
    found = mirror.image(image)
    for url in addresses(found) if found != image else ():
        said = trouble(url)
        if said is not None and said.startswith(ABSENT):
            what = f"image_mirror lacks a file of image {image.name}: {url} {said}"
            raise BadInput(what, hint=MIRROR_HINT)
    return found


def addresses(image: DiskImage) -> list[str]:
    """Return the addresses of a published image: its own, and its list's."""
    source = image.source
    return [url for url in (source.url, source.checksum_url) if url] if isinstance(source, UrlSource) else []

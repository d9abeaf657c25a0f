"""Published disk images: their checksum, from matrix/images.yml or from the list beside the image; who has them."""

from __future__ import annotations

from pathlib import PurePosixPath

from harness.artifacts.download import ABSENT, listed, text, trouble
from harness.errors import BadInput, InfraError
from harness.spec.image_mirror import ImageMirror
from harness.spec.models import DiskImage, UrlSource

HINT = "check matrix/images.yml"
MIRROR_HINT = "add the file to the mirror, or change image_mirror (vmatrix config)"


def checksum(source: UrlSource, *, hint: str = HINT) -> str:
    """Return an image's checksum as "sha256:HEX" or "sha512:HEX", as DataVolumes take it.

    Args:
        hint: what to do when there is no list, or it lacks the image.

    Raises:
        InfraError: the list does not name the image.  InfraRetriable: the list could not be downloaded.
    """
    if source.checksum is not None:
        return source.checksum
    url, name = source.checksum_url or "", PurePosixPath(source.url).name
    found = listed(text(url, hint=hint), name)
    if found is None:
        raise InfraError(f"{url} lists no checksum of {name}", hint=hint)
    return found


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

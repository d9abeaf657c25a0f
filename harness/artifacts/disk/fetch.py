"""Published disk images: their checksum, from matrix/images.yml or from the list beside the image."""

from __future__ import annotations

from pathlib import PurePosixPath

from harness.artifacts.download import listed, text
from harness.errors import InfraError
from harness.spec.models import UrlSource

HINT = "check matrix/images.yml"


def checksum(source: UrlSource) -> str:
    """Return an image's checksum as "sha256:HEX" or "sha512:HEX", as DataVolumes take it.

    Raises:
        InfraError: the list does not name the image.  InfraRetriable: the list could not be downloaded.
    """
    if source.checksum is not None:
        return source.checksum
    url, name = source.checksum_url or "", PurePosixPath(source.url).name
    found = listed(text(url, hint=HINT), name)
    if found is None:
        raise InfraError(f"{url} lists no checksum of {name}", hint=HINT)
    return found

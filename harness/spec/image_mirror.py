"""The setting `image_mirror`: from which addresses `url` images of matrix/images.yml come instead of their own.

Covers rewriting addresses. What an image is does not change: its checksum, or that of the mirror's copy of the list,
must still fit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from harness.spec.models import DiskImage, UrlSource

BASE = re.compile(r"^https?://[^\s/]+(/\S*)?$")


@dataclass(frozen=True)
class ImageMirror:
    """Where images come from instead.

    rules: the beginning of an address, and what to put in its place; the longest that fits is used. "" fits every
        address and stands for a mirror with one folder per host: its place comes before host and path.
    credentials, certificates: a Secret and a ConfigMap in the golden images' namespace that imports from it need.
    """

    rules: tuple[tuple[str, str], ...]
    credentials: str | None = None
    certificates: str | None = None

    @staticmethod
    def parse(text: str, credentials: str | None = None, certificates: str | None = None) -> ImageMirror:
        """Read the setting: `URL`, or `PREFIX=URL`, or several of them with commas in between.

        Raises:
            ValueError: a part is neither.
        """
        rules = []
        for part in text.split(","):
            prefix, equals, place = part.strip().rpartition("=")
            if not BASE.match(place) or (equals and not BASE.match(prefix)):
                raise ValueError(f"{part.strip()!r} is neither URL nor PREFIX=URL, both http(s)")
            rules.append((prefix, place))
        return ImageMirror(tuple(rules), credentials, certificates)

    def address(self, url: str) -> str:
        """Return the mirror's address of a file, or the file's own where no rule fits."""
        fitting = [rule for rule in self.rules if _below(url, rule[0])]
        if not fitting:
            return url
        prefix, place = max(fitting, key=lambda rule: len(rule[0]))
        parts = urlsplit(url)
        rest = url.removeprefix(prefix) if prefix else f"{parts.netloc}{parts.path}"
        return f"{place.rstrip('/')}/{rest.lstrip('/')}"

    def image(self, image: DiskImage) -> DiskImage:
        """Return an image with its mirror's addresses; an image that is built here stays as it is."""
        source = image.source
        if not isinstance(source, UrlSource) or self.address(source.url) == source.url:
            return image
        listed = self.address(source.checksum_url) if source.checksum_url else None
        changed: dict[str, str | None] = {"url": self.address(source.url), "checksum_url": listed}
        changed |= {"credentials": self.credentials, "certificates": self.certificates}
        return image.model_copy(update={"source": source.model_copy(update=changed)})


def _below(url: str, prefix: str) -> bool:
    """Tell whether an address is below another one, by whole names: /a is not below it of /ab."""
    return url.startswith(prefix) and (not prefix or prefix.endswith("/") or url[len(prefix) :][:1] in {"", "/"})

"""The cache of disk images: each is made or downloaded at most once, and is there whole or not at all.

Layout: `NAME-<first 12 of its sha256>.qcow2` and a record `.json` beside it, which is written last and holds the key
(recipe hash, or published checksum) that the image was made for.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from harness import paths
from harness.artifacts.disk import build, fetch, qcow2, recipe
from harness.artifacts.disk.build import Say
from harness.artifacts.download import Told, download
from harness.artifacts.recipe import LIMITS, ArtifactLimits
from harness.artifacts.workdir import hold, working
from harness.errors import InfraError
from harness.files import sha256_of, write_atomically
from harness.spec.models import BuildSource, DiskImage, UrlSource
from harness.spec.project import templates_dir

TELL_SECONDS = 2.0  # between two lines of progress


@dataclass(frozen=True)
class CachedImage:
    """A disk image in the cache. Sizes are bytes; sha256 is the file's, in hex."""

    name: str
    file: str
    key: str
    sha256: str
    size: int
    virtual_size: int
    seconds: float


@dataclass(frozen=True)
class ImageCache:
    """Obtains disk images.

    Args:
        recipes: the folder with one folder per recipe.
        root: where images are kept; by default `images` below the cache directory.
        mirror: a Debian archive's URL for builds; without it the builder's default.
        limits: how long an installation may take.
    """

    recipes: Path = field(default_factory=lambda: templates_dir() / "images")
    root: Path = field(default_factory=lambda: paths.cache_dir() / "images")
    mirror: str = field(default_factory=lambda: os.environ.get("VMATRIX_DEBIAN_MIRROR", ""))
    limits: ArtifactLimits = LIMITS

    def path(self, image: CachedImage) -> Path:
        """Return an image's file."""
        return self.root / image.file

    def cached(self, image: DiskImage) -> CachedImage | None:
        """Return an image if it is cached; make nothing. A published image's list of checksums is asked for."""
        return self._read(image, self.key(image))

    def ensure(self, image: DiskImage, say: Say = lambda _: None) -> CachedImage:
        """Return an image, making or downloading it first when it is not cached.

        Raises:
            BadInput: its recipe is wrong, or this is not root.
            InfraError: it could not be made or downloaded; nothing of it stays behind but a log.
        """
        key = self.key(image)
        if (found := self._read(image, key)) is not None:
            return found
        with hold(self.root, image.name, lambda: say(f"{image.name}: waiting for another process that builds it")):
            # another process may have made it while this one waited
            return self._read(image, key) or self._make(image, key, say)

    def key(self, image: DiskImage) -> str:
        """Return what an image is made for: its recipe's hash, or its published checksum, which a list is asked for."""
        if isinstance(image.source, UrlSource):
            return fetch.checksum(image.source)
        return f"recipe:{self._recipe(image.source).key(size_gib=image.size_gib)}"

    def _recipe(self, source: BuildSource) -> recipe.DiskRecipe:
        return recipe.load(self.recipes, source.recipe, bootable=source.bootable)

    def current(self, image: DiskImage) -> CachedImage | None:
        """Return the version in the cache that fits the recipe, or else the newest; asks no site."""
        kept = self.kept(image.name)
        key = self.key(image) if isinstance(image.source, BuildSource) else ""
        return next((version for version in kept if version.key == key), kept[-1] if kept else None)

    def kept(self, name: str) -> list[CachedImage]:
        """Return all versions that are in the cache under a name, oldest first, declared or not."""
        found = []
        for record in sorted(self.root.glob(f"{name}-*.json"), key=lambda path: path.stat().st_mtime):
            try:
                kept = CachedImage(**json.loads(record.read_text(encoding="utf-8")))
                if kept.name == name and self.path(kept).stat().st_size == kept.size:
                    found.append(kept)
            except (OSError, ValueError, TypeError):  # damaged: it is made again
                continue
        return found

    def _read(self, image: DiskImage, key: str) -> CachedImage | None:
        return next((kept for kept in self.kept(image.name) if kept.key == key), None)

    def _make(self, image: DiskImage, key: str, say: Say) -> CachedImage:
        began = time.monotonic()
        try:
            with working(self.root, image.name) as work:
                work.mkdir()
                file = self._obtain(image, key, work, lambda line: say(f"{image.name}: {line}"))
                virtual = qcow2.check_fits(file, name=image.name, size_gib=image.size_gib)
                made = self._keep(image, key, file, virtual, time.monotonic() - began)
        except OSError as error:
            raise InfraError(
                f"disk image {image.name} could not be written: {error}", hint="df -h", paths=[self.root]
            ) from error
        say(f"{image.name}: done after {made.seconds:.0f} s, {made.size >> 20} MiB")
        return made

    def _obtain(self, image: DiskImage, key: str, work: Path, say: Say) -> Path:
        if isinstance(image.source, BuildSource):
            log = self.root / f"{image.name}.log"
            log.write_text("", encoding="utf-8")
            what = self._recipe(image.source)
            size, seconds = image.size_gib, self.limits.install
            return build.build(what, size_gib=size, work=work, log=log, say=say, mirror=self.mirror, seconds=seconds)
        target = work / "disk.qcow2"
        download(image.source.url, key, target, hint=fetch.HINT, told=_percentages(say))
        return target

    def _keep(self, image: DiskImage, key: str, file: Path, virtual_size: int, seconds: float) -> CachedImage:
        sha256 = sha256_of(file)
        stem = f"{image.name}-{sha256[:12]}"
        made = CachedImage(
            name=image.name,
            file=f"{stem}.qcow2",
            key=key,
            sha256=sha256,
            size=file.stat().st_size,
            virtual_size=virtual_size,
            seconds=round(seconds, 1),
        )
        file.replace(self.path(made))
        write_atomically(self.root / f"{stem}.json", json.dumps(asdict(made), indent=1) + "\n")
        return made


def _percentages(say: Say) -> Told:
    """Return a listener to a download that says every few seconds how far it is."""
    told_at = time.monotonic()

    def told(so_far: int, announced: int | None) -> None:
        nonlocal told_at
        if time.monotonic() - told_at >= TELL_SECONDS:
            told_at = time.monotonic()
            of = f" of {announced >> 20} MiB ({100 * so_far // max(1, announced)} %)" if announced else " MiB"
            say(f"downloaded {so_far >> 20}{of}")

    return told

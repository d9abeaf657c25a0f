"""Cache of disk images: make or download each at most once, whole or not at all; prune what is not declared any more.

Layout: `NAME-<first 12 of its sha256>.qcow2` and a record `.json` beside it, which is written last and holds the
key (recipe hash, or published checksum) that the image was made for. The checksum of a published image is in
matrix/images.yml or in the list beside the image.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from harness import paths
from harness.artifacts.disk import build, catalogue
from harness.artifacts.disk.build import Say
from harness.artifacts.download import ABSENT, ListedFile, Told, download, entries, listed, text, trouble
from harness.artifacts.recipe import LIMITS, ArtifactLimits
from harness.errors import BadInput, InfraError
from harness.files import LOCK, half_done, hold, if_unlocked, sha256_of, working, write_atomically
from harness.spec.models import BuildSource, DiskImage, UrlSource
from harness.spec.project import templates_dir
from harness.spec.settings import ImageMirror

GIB = 1 << 30
CHECKSUM_HINT = "check matrix/images.yml"
SHOWN = 8  # names of a list that a message repeats
MIRROR_HINT = "add the file to the mirror, or change image_mirror (vmatrix config)"
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
        if (image_file := self._read(image, key)) is not None:
            return image_file
        with hold(self.root, image.name, lambda: say(f"{image.name}: waiting for another process that builds it")):
            # another process may have made it while this one waited
            return self._read(image, key) or self._make(image, key, say)

    def key(self, image: DiskImage) -> str:
        """Return what an image is made for: its recipe's hash, or its published checksum, which a list is asked for."""
        if isinstance(image.source, UrlSource):
            return published_checksum(image.source)
        return f"recipe:{self._recipe(image.source).key(size_gib=image.size_gib)}"

    def _recipe(self, source: BuildSource) -> catalogue.DiskRecipe:
        return catalogue.load_recipe(self.recipes, source.recipe, bootable=source.bootable)

    def current(self, image: DiskImage) -> CachedImage | None:
        """Return the version in the cache that fits the recipe, or else the newest; asks no site."""
        kept = self.kept(image.name)
        key = self.key(image) if isinstance(image.source, BuildSource) else ""
        return next((version for version in kept if version.key == key), kept[-1] if kept else None)

    def kept(self, name: str) -> list[CachedImage]:
        """Return all versions that are in the cache under a name, oldest first, declared or not."""
        entries = []
        for record in sorted(self.root.glob(f"{name}-*.json"), key=lambda path: path.stat().st_mtime):
            try:
                kept = CachedImage(**json.loads(record.read_text(encoding="utf-8")))
                if kept.name == name and self.path(kept).stat().st_size == kept.size:
                    entries.append(kept)
            except (OSError, ValueError, TypeError):  # damaged: it is made again
                continue
        return entries

    def _read(self, image: DiskImage, key: str) -> CachedImage | None:
        return next((kept for kept in self.kept(image.name) if kept.key == key), None)

    def _make(self, image: DiskImage, key: str, say: Say) -> CachedImage:
        began = time.monotonic()
        try:
            with working(self.root, image.name) as work:
                work.mkdir()
                file = self._obtain(image, key, work, lambda line: say(f"{image.name}: {line}"))
                virtual = check_fits(file, name=image.name, size_gib=image.size_gib)
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
        download(image.source.url, key, target, hint=CHECKSUM_HINT, told=_percentages(say))
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


@dataclass(frozen=True)
class StaleImage:
    """What can go of one image: its files (or the folder of a killed build), and their size in bytes."""

    name: str
    paths: tuple[Path, ...]
    size: int


def prune(cache: ImageCache, images: Sequence[DiskImage], *, dry_run: bool = False) -> tuple[StaleImage, ...]:
    """Remove all but the current version of every declared image; return what went, or (`dry_run`) what would go.

    An image that another process makes is left. Machines whose disks were imported do not need the file any more.
    """
    current = {entry.file for image in images if (entry := cache.current(image)) is not None}
    gone = []
    for name in sorted({lock.name.removeprefix(LOCK) for lock in cache.root.glob(f"{LOCK}*")}):
        with if_unlocked(cache.root / f"{LOCK}{name}") as free:
            stale = _stale(cache, name, current) if free else None
            if stale is not None:
                gone.append(stale)
                if not dry_run:
                    _remove(stale)
    return tuple(gone)


def _stale(cache: ImageCache, name: str, current: set[str]) -> StaleImage | None:
    """Return what can go of one image, by its name; None when there is nothing."""
    paths = half_done(cache.root, name)
    for kept in cache.kept(name):
        if kept.file not in current:
            paths += [cache.path(kept).with_suffix(".json"), cache.path(kept)]
    size = sum(file.stat().st_size for path in paths for file in (path, *path.rglob("*")) if file.is_file())
    return StaleImage(name, tuple(paths), size) if paths else None


def _remove(stale: StaleImage) -> None:
    for path in stale.paths:  # a record before its image: without it the image is not found any more
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def virtual_size(image: Path) -> int:
    """Return the virtual size in bytes from a qcow2 file's header. Raises InfraError when the file is not qcow2."""
    with image.open("rb") as handle:
        header = handle.read(32)
    if len(header) < 32 or header[:4] != b"QFI\xfb":
        raise InfraError(f"{image.name} is not a qcow2 image", hint="check the URL in matrix/images.yml", paths=[image])
    return int(struct.unpack(">Q", header[24:32])[0])


def check_fits(image: Path, *, name: str, size_gib: int) -> int:
    """Return the virtual size in bytes if the catalogue's disk can hold it.

    Raises:
        InfraError: the image is larger than its disk.
    """
    size = virtual_size(image)
    if size > size_gib * GIB:
        raise InfraError(
            f"image {name} is larger than its disk: {size / GIB:.1f} GiB do not fit into {size_gib} GiB",
            hint=f"set `size_gib: {-(-size // GIB)}` or more for {name} in matrix/images.yml",
        )
    return size


def published_checksum(source: UrlSource, *, hint: str = CHECKSUM_HINT) -> str:
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
    checksum = listed(content, path)
    if checksum is None:
        raise _not_listed(url, PurePosixPath(path).name, entries(content), hint)
    return checksum


def _not_listed(url: str, name: str, every: Sequence[ListedFile], hint: str) -> BadInput:
    """Return the refusal of a list that does not say an image's checksum, with what it has."""
    same = [entry.name or "a digest alone" for entry in every if PurePosixPath(entry.name or name).name == name]
    if same:
        return BadInput(f"{url} lists several checksums of {name} that differ: {', '.join(same)}", hint=hint)
    names = list(dict.fromkeys(entry.name for entry in every))
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    has = f"it has {', '.join(names[:SHOWN])}{more}" if names else "it has no SHA-256 or SHA-512 checksum at all"
    return BadInput(f"{url} lists no checksum of {name}; {has}", hint=hint)


def from_mirror(mirror: ImageMirror, image: DiskImage) -> DiskImage:
    """Return an image with its mirror's addresses.

    Raises:
        BadInput: the mirror answers that it lacks the image or its list. If it cannot be asked from here, an import may
            still reach it.
    """
    served = mirror.image(image)
    for url in published_addresses(served) if served != image else ():
        reason = trouble(url)
        if reason is not None and reason.startswith(ABSENT):
            what = f"image_mirror lacks a file of image {image.name}: {url} {reason}"
            raise BadInput(what, hint=MIRROR_HINT)
    return served


def published_addresses(image: DiskImage) -> list[str]:
    """Return the addresses of a published image: its own, and its list's."""
    source = image.source
    return [url for url in (source.url, source.checksum_url) if url] if isinstance(source, UrlSource) else []

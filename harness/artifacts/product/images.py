"""Images of a product's own, and vmatrix's under other names: what is pushed into a registry as what."""

from __future__ import annotations

import copy
import os
import tarfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from harness import proc
from harness.artifacts import refs
from harness.artifacts.catalogue import IMAGE_PREFIX
from harness.artifacts.recipe import Ref
from harness.artifacts.store import FILES, Store
from harness.errors import BadInput
from harness.files import hold, working
from harness.spec import product_files
from harness.spec.models import ProductArtifacts
from harness.spec.models.product import OwnImage

UNPACKED = ".unpacked"  # in the cache: archives while they are pushed


@dataclass(frozen=True)
class Upload:
    """An image that is to be in a registry as REPOSITORY:TAG. `source`: one of vmatrix's images, or an archive."""

    name: str
    source: Ref | Path

    @property
    def repository(self) -> str:
        """Return the name without its tag."""
        return self.name.rpartition(":")[0]

    @property
    def tag(self) -> str:
        """Return the tag."""
        return self.name.rpartition(":")[2]


def own_images(
    asked: ProductArtifacts | None, project: Path, images: Collection[Ref], renamed: Sequence[tuple[str, Ref]]
) -> tuple[Upload, ...]:
    """Return what a product has pushed besides the images of vmatrix's by their own names.

    Args:
        images: those.
        renamed: names for images of vmatrix's.

    Raises:
        BadInput: two images would have one name, or an archive cannot be used.
    """
    taken: dict[str, Ref | Path] = {f"{ref.name.removeprefix(IMAGE_PREFIX)}:{ref.version}": ref for ref in images}
    uploads: dict[str, Upload] = {}
    archives = [entry for entry in asked.images if isinstance(entry, OwnImage)] if asked is not None else []
    sources: list[tuple[str, Ref | Path]] = [*renamed, *(_named(entry, project) for entry in archives)]
    for name, source in sources:
        if taken.setdefault(name, source) != source:
            raise BadInput(
                f"product.yml: artifacts: {source} and {taken[name]} would both be the image {name}",
                hint="give one of them another name",
            )
        uploads[name] = Upload(name, source)
    return tuple(uploads.values())


def _named(entry: OwnImage, project: Path) -> tuple[str, Path]:
    path = project / entry.archive
    try:
        name = entry.name or product_files.look(path).name
    except (ValueError, OSError) as error:
        raise BadInput(f"product.yml: artifacts: {error}", hint="write the archive again") from error
    return name, path


@contextmanager
def pushable(upload: Upload, store: Store) -> Iterator[tuple[Path, str]]:
    """Give what crane pushes for an upload, a folder or an archive, and the digest that it has in a registry then.

    Raises:
        BadInput: an archive cannot be used any more.  CommandFailed: crane cannot read it.
    """
    if isinstance(upload.source, Ref):
        artifact = store.obtain(upload.source.name, upload.source.version)
        yield artifact.directory / FILES, str(artifact.facts["digest"])
        return
    try:
        found = product_files.look(upload.source)
    except (ValueError, OSError) as error:
        raise BadInput(f"product.yml: artifacts: {error}", hint="write the archive again") from error
    if found.form == "docker":
        with proc.failing_as_infra(f"{upload.source} cannot be read", hint="write the archive again"):
            output = proc.run([crane(store), "digest", "--tarball", upload.source], timeout=store.limits.push)
        yield upload.source, output.stdout.strip()
        return
    if found.form == "layout":
        yield upload.source, found.digest
        return
    root, name = store.root / UNPACKED, found.digest.replace(":", "-")
    with hold(root, name, lambda: None), working(root, name) as folder:
        with tarfile.open(upload.source, mode="r:") as archive:
            archive.extraction_filter = lambda entry, _: entry  # later releases would ask for one
            archive.extractall(folder, members=plain_entries(archive))  # noqa: S202 - none leaves the folder
        yield folder, found.digest


def crane(store: Store) -> Path:
    """Return the program that pushes."""
    ref = refs.newest(store.catalogue, "crane")
    return store.obtain(ref.name, ref.version).file("crane")


def plain_entries(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Return the files and folders of an archive, as their reader's own, without those that lie outside of it.

    `extractall(filter="data")` does so, too, and is newer than Debian 12's Python 3.11.2.
    """
    for entry in archive:
        path = PurePosixPath(entry.name)
        if not (entry.isfile() or entry.isdir()) or path.is_absolute() or ".." in path.parts:
            continue
        own = copy.copy(entry)
        own.uid, own.gid, own.uname, own.gname = os.getuid(), os.getgid(), "", ""
        own.mode = 0o755 if entry.isdir() else 0o644
        yield own

"""Offer of the mirror and the registry in several phases: what guests find there because the product asks for it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from harness.artifacts import refs
from harness.artifacts.catalogue import Catalogue
from harness.artifacts.mirror import archive_of
from harness.artifacts.product.files import FOLDER, LaidOut, Tree, layout, of_phase, publish_tree, refs_of
from harness.artifacts.product.images import Upload, own_images
from harness.artifacts.recipe import Progress, Ref, silent
from harness.artifacts.store import FILES, Artifact, Store
from harness.spec.models import Product

Variables = Mapping[str, Any]
Layout = tuple[LaidOut, ...]
Trees = Mapping[str, Tree]
SOURCE, FROM_MIRROR = "cluster_artifact_source", "mirror"


@dataclass(frozen=True)
class Offer:
    """What is offered. Made without obtaining anything, so that mistakes are found first.

    programs, images: of vmatrix's.  laid_out: which of them lie where the product says, for each set of versions.
    uploads: what else is pushed into the registry.  folder: of the product's own files.
    """

    product: Product
    programs: tuple[Ref, ...]
    images: tuple[Ref, ...]
    laid_out: Mapping[str, Layout]
    uploads: tuple[Upload, ...]
    folder: Path | None

    @staticmethod
    def of(
        catalogue: Catalogue,
        product: Product,
        project: Path,
        moments: Sequence[Variables],
        probes: Callable[[Variables], Sequence[str]] = lambda _: (),
    ) -> Offer:
        """Return what is offered in several phases.

        Args:
            project: the folder that paths in product.yml are relative to.
            moments: the variables of the phases.
            probes: returns the images that the checks of a phase run, as repository:tag.

        Raises:
            BadInput: the catalogue does not have what is asked for, or two things would have one name.
        """
        asked = product.artifacts
        programs = dict.fromkeys(ref for variables in moments for ref in refs.programs(catalogue, asked, variables))
        images = dict.fromkeys(
            ref for variables in moments for ref in refs.product_images(catalogue, asked, variables, probes(variables))
        )
        renamed = [item for variables in moments for item in refs.renamed(catalogue, asked, variables).items()]
        return Offer(
            product,
            tuple(programs),
            tuple(images),
            {_name(laid): laid for variables in moments for laid in [layout(catalogue, asked, variables)]},
            own_images(asked, project, images, renamed),
            project / asked.folder if asked is not None and asked.folder else None,
        )

    def publish(self, store: Store, cache: Path, progress: Progress = silent) -> Trees:
        """Have the mirror of a cache serve the product's files, one tree for each set of versions; none without any."""
        return {
            name: publish_tree(cache, store.ensure(refs_of(laid), progress), laid, self.folder)
            for name, laid in self.laid_out.items()
            if laid or self.folder is not None
        }

    def variables(self, store: Store, trees: Trees, url: str, given: Variables, *, ours: bool) -> Variables:
        """Return what a phase is told of it.

        Args:
            trees: what the mirror serves.
            url: of the mirror.
            given: the variables of the phase.
            ours: whether the mirror is one of vmatrix's own, with the very files that this process has.
        """
        catalogue, asked = store.catalogue, self.product.artifacts
        told: dict[str, Any] = {}
        if ours and given.get(SOURCE, FROM_MIRROR) == FROM_MIRROR:
            programs = [ref for ref in refs.programs(catalogue, asked, given) if ref.name not in refs.TESTING]
            here = checksums(artifact for ref in programs if (artifact := store.cached(ref)) is not None)
            told["cluster_checksums"] = {**here, **given.get("cluster_checksums", {})}
        served = trees.get(_name(layout(catalogue, asked, given)))
        if served is None:
            return told
        base = f"{url}/{FOLDER}/{served.key}"
        files: dict[str, dict[str, str]] = {}
        for each in of_phase(catalogue, asked, given):
            for ref, _ in each.files.values():
                entry = {"url": f"{base}/{each.path}", "sha256": served.sums[each.path], "version": ref.version}
                files.setdefault(ref.name, entry)
        return {
            **told,
            "cluster_files_url": base,
            "cluster_files": files,
            "cluster_file_checksums": {f"{base}/{path}": digest for path, digest in served.sums.items()},
        }


def _name(laid_out: Layout) -> str:
    """Return what tells the files for one set of versions from those for another."""
    return repr([(each.path, sorted(each.files.items())) for each in laid_out])


def checksums(made: Iterable[Artifact]) -> dict[str, str]:
    """Return NAME/VERSION -> SHA-256, as `cluster_checksums` has it."""
    checksums = {}
    for artifact in made:
        files = artifact.facts["files"]
        alone = files.get(artifact.ref.name) if len(files) == 1 else None
        digest = str(alone["sha256"]) if alone is not None else _of_archive(artifact.directory / FILES)
        checksums[f"{artifact.ref.name}/{artifact.ref.version}"] = digest
    return checksums


@cache
def _of_archive(folder: Path) -> str:
    body, digest = archive_of(folder, folder), hashlib.sha256()
    for piece in body.pieces if body is not None else ():
        if isinstance(piece, bytes):
            digest.update(piece)
            continue
        with piece.open("rb") as content:
            while chunk := content.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()

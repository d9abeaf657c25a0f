"""What guests find on the mirror and in the registry during several phases, because the product asks for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.artifacts import refs
from harness.artifacts.catalogue import Catalogue
from harness.artifacts.product import layout, sums, tree, wanted
from harness.artifacts.product.pushed import Upload, own_images
from harness.artifacts.recipe import Progress, Ref, silent
from harness.artifacts.store import Store
from harness.spec.models import Product

Variables = Mapping[str, Any]
SOURCE, FROM_MIRROR = "cluster_artifact_source", "mirror"


@dataclass(frozen=True)
class Offer:
    """What is offered. Made without obtaining anything, so that mistakes are found first.

    programs, images: of vmatrix's.  laid_out: which of them lie where the product says.
    uploads: what else is pushed into the registry.  folder: of the product's own files.
    """

    product: Product
    programs: tuple[Ref, ...]
    images: tuple[Ref, ...]
    laid_out: tuple[layout.LaidOut, ...]
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
        programs = dict.fromkeys(ref for given in moments for ref in wanted.programs(catalogue, asked, given))
        images = dict.fromkeys(
            ref for given in moments for ref in wanted.images(catalogue, asked, given, probes(given))
        )
        renamed = [item for given in moments for item in wanted.renamed(catalogue, asked, given).items()]
        return Offer(
            product,
            tuple(programs),
            tuple(images),
            layout.layout(catalogue, asked, moments),
            own_images(asked, project, images, renamed),
            project / asked.folder if asked is not None and asked.folder else None,
        )

    @property
    def has_files(self) -> bool:
        """Tell whether the mirror has files of this product."""
        return bool(self.laid_out) or self.folder is not None

    def publish(self, store: Store, cache: Path, progress: Progress = silent) -> tree.Tree | None:
        """Have the mirror of a cache serve the product's files; None where it has none."""
        if not self.has_files:
            return None
        return tree.publish(cache, store.ensure(layout.refs_of(self.laid_out), progress), self.laid_out, self.folder)

    def variables(self, store: Store, found: tree.Tree | None, url: str, given: Variables, *, ours: bool) -> Variables:
        """Return what a phase is told of it.

        Args:
            found: what the mirror serves.
            url: of the mirror.
            given: the variables of the phase.
            ours: whether the mirror is one of vmatrix's own, with the very files that this process has.
        """
        catalogue, asked = store.catalogue, self.product.artifacts
        told: dict[str, Any] = {}
        if ours and given.get(SOURCE, FROM_MIRROR) == FROM_MIRROR:
            served = [ref for ref in wanted.programs(catalogue, asked, given) if ref.name not in refs.TESTING]
            here = sums.checksums(artifact for ref in served if (artifact := store.cached(ref)) is not None)
            told["cluster_checksums"] = {**here, **given.get("cluster_checksums", {})}
        if found is None:
            return told
        base = f"{url}/{tree.FOLDER}/{found.key}"
        files: dict[str, dict[str, str]] = {}
        for each in layout.of_phase(catalogue, asked, given):
            for ref, _ in each.files.values():
                entry = {"url": f"{base}/{each.path}", "sha256": found.sums[each.path], "version": ref.version}
                files.setdefault(ref.name, entry)
        return {
            **told,
            "cluster_files_url": base,
            "cluster_files": files,
            "cluster_file_checksums": {f"{base}/{path}": digest for path, digest in found.sums.items()},
        }

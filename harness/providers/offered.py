"""What the mirror and the registry of a run have for its product: found out before anything is made, then published."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from harness import paths
from harness.artifacts import e2e_images, refs
from harness.artifacts.catalogue import ADDED, IMAGE_PREFIX, KUBERNETES, Catalogue
from harness.artifacts.catalogue import load as load_catalogue
from harness.artifacts.download import ABSENT, trouble
from harness.artifacts.product.files import FOLDER, SUMS
from harness.artifacts.product.offer import Offer, Trees
from harness.artifacts.recipe import ArtifactLimits, Ref, Source
from harness.artifacts.store import Store
from harness.errors import BadInput
from harness.model import Cell, Mirror
from harness.providers.definition import Definition
from harness.spec import product_files
from harness.spec.lines import Problem
from harness.spec.loader import refuse
from harness.spec.models import Product
from harness.spec.project import Project
from harness.spec.suites import PERFORMANCE, UPSTREAM
from harness.spec.variables import VERSION_SUFFIX, asking
from harness.validate.conformance.curated import load_curated
from harness.validate.expected import minor_of
from harness.validate.performance import pods

ProductVariables = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def offer_of(
    project: Project,
    cells: Sequence[Cell],
    catalogue: Catalogue | None = None,
    suites: Collection[str] | None = None,
) -> Offer:
    """Return what the cells' product is offered, with what the checks of these cells run.

    Args:
        suites: that run in the cells, where these are known: the image of one of them is not another's business.

    Raises:
        BadInput: the product asks for what vmatrix does not have, or for two things of one name.
    """
    moments = _moments(cells)
    product = product_files.located(project.spec.product, project.directory)
    known = catalogue or load_catalogue()
    offer = Offer.of(known, product, project.directory, moments, _probes)
    return replace(offer, images=tuple(dict.fromkeys((*offer.images, *of_suites(known, suites or (), cells)))))


def of_suites(catalogue: Catalogue, suites: Collection[str], cells: Sequence[Cell]) -> tuple[Ref, ...]:
    """Return the images that only the checks of these suites run."""
    moments = _moments(cells)
    return tuple(dict.fromkeys(ref for suite in sorted(suites) for ref in _of_suite(catalogue, suite, moments)))


def _moments(cells: Sequence[Cell]) -> list[Mapping[str, Any]]:
    """Return the variables of every phase, and of what is between two versions within one."""
    return [given for cell in cells for phase in cell.phases for given in (*phase.between, phase.vars)]


def _of_suite(catalogue: Catalogue, suite: str, moments: Sequence[Mapping[str, Any]]) -> Sequence[Ref]:
    """Return the images that only the checks of one suite run."""
    if suite == PERFORMANCE:
        return [Ref(IMAGE_PREFIX + pods.TOOLS_IMAGE.partition(":")[0], pods.TOOLS_IMAGE.partition(":")[2])]
    versions = dict.fromkeys(str(given[refs.VERSION]) for given in moments) if suite in UPSTREAM else ()
    return [ref for version in versions for ref in e2e_images.refs(catalogue, version)]


def controllers(project: Project, cells: Sequence[Cell], catalogue: Catalogue | None = None) -> dict[str, Ref]:
    """Return the images that the cells' declared products ask for, by the names that they use.

    Raises:
        BadInput: vmatrix has no such image.
    """
    known = catalogue or load_catalogue()
    names = dict.fromkeys(name for cell in cells for name in _asked(project.spec.product_of(cell.values), cell))
    return {name: refs.newest(known, f"{IMAGE_PREFIX}{name}") for name in names}


def _asked(product: Product, cell: Cell) -> Iterator[str]:
    """Yield the images that a product asks for in a cell: for all phases, and for some of them."""
    if product.declared is None:
        return
    yield from product.declared.images
    for phase in cell.phases:
        if not phase.restart:
            yield from product.phases[phase.name].images


def refuse_unusable(project: Project, cells: Sequence[Cell]) -> None:
    """Refuse what a product asks for and cannot have, before a run begins; what lies in sources, once these are there.

    Raises:
        BadInput: as `offer_of`.
    """
    refuse_unprovided(project, cells)
    given = project.spec.product.model_dump(include={"sources", "artifacts"})
    where = product_files.folder(given["sources"], project.directory)
    if where is None or where.is_dir() or not product_files.marked(given["artifacts"]):
        offer_of(project, cells)
        controllers(project, cells)


def refuse_unprovided(project: Project, cells: Sequence[Cell]) -> None:
    """Refuse versions that cells need and that nothing provides: the catalogue, the project, or a source of the latter.

    Raises:
        BadInput: each with the line that asks for it.
    """
    catalogue, asked = load_catalogue(), project.spec.product.artifacts
    moments = _of_versions(cells)
    lacking = dict.fromkeys(one for given in moments for one in refs.unprovided(catalogue, asked, given))
    if lacking:
        raise refuse([_unprovided(project, catalogue, one, asked is None) for one in lacking])
    needed = [
        ref
        for given in moments
        for ref in (*refs.programs(catalogue, asked, given), *refs.product_images(catalogue, asked, given))
    ]
    source, limits = Source(project.settings.artifact_source), ArtifactLimits.of(project.timeouts)
    Store(source=source, catalogue=catalogue, limits=limits).refuse_absent(needed)


def _of_versions(cells: Sequence[Cell]) -> list[Mapping[str, Any]]:
    """Return the variables of every phase that differ in what decides on artifacts."""
    decide = (refs.RUNTIME_NAME, refs.PLUGIN)
    return list(
        {
            tuple((name, str(value)) for name, value in sorted(given.items()) if name.endswith(VERSION_SUFFIX))
            + tuple(str(given.get(name)) for name in decide): given
            for given in _moments(cells)
        }.values()
    )


def _unprovided(project: Project, catalogue: Catalogue, one: refs.Unprovided, fetches: bool) -> Problem:
    """Return what is wrong with a version, at the line that asks for it. fetches: no artifact is asked for by name."""
    name, version = one.ref.name.removeprefix(IMAGE_PREFIX), one.ref.version.removeprefix("v")
    known = catalogue.versions_of(one.ref.name)
    said = f"nothing provides {name} {version} (known: {', '.join(known)}); name one of these"
    if name in (KUBERNETES, *catalogue.programs) and catalogue.of_minor(name, version) is not None:
        said += f", or add it to {paths.MATRIX}/{ADDED}: vmatrix artifacts newer --write {name}@{version}"
    if fetches and name == KUBERNETES:
        said += "; with `artifacts: {}` in product.yml, a product fetches everything by itself (docs/artifacts.md)"
    return asking(project.directory / paths.MATRIX, one.variable, one.entry or version).problem(said)


def _probes(given: Mapping[str, Any]) -> Sequence[str]:
    """Return the images of the conformance list of a phase's minor, which the other checks' pods run, too."""
    with suppress(BadInput):  # the checks that need the list say so themselves
        return tuple(load_curated(minor_of(str(given["cluster_kubernetes_version"]))).images.values())
    return ()


def told(offer: Offer, found: Trees, store: Store, definition: Definition, mirror: Mirror) -> ProductVariables:
    """Return what tells a phase of it, by the phase's variables.

    Raises:
        BadInput: the mirror is not vmatrix's, and does not have the product's files.
    """
    for tree in found.values() if not definition.has_mirror else ():
        url = f"{mirror.http}/{FOLDER}/{tree.key}/{SUMS}"
        if (said := trouble(url)) is not None and said.startswith(ABSENT):
            raise BadInput(
                f"the mirror does not have the files that product.yml asks for: {url} {said}",
                hint="run `vmatrix artifacts serve --tier TIER` in the project, where the mirror is",
            )
    return lambda given: offer.variables(store, found, mirror.http, given, ours=definition.has_mirror)


def publish(offer: Offer, store: Store) -> Trees:
    """Have the mirrors of this host serve the product's files."""
    return offer.publish(store, paths.cache_dir())

"""The infra cluster of a run, as its cells see it: settings, provider and artifacts put together.

Programs for it (kubectl, pins of releases) and the doctor's dry run of its network are put together here as well.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from harness import providers
from harness.artifacts import go_toolchain, refs
from harness.artifacts.catalogue import IMAGE_PREFIX, load
from harness.artifacts.disk import catalogue
from harness.artifacts.disk.cache import (
    CHECKSUM_HINT,
    MIRROR_HINT,
    CachedImage,
    ImageCache,
    from_mirror,
    published_addresses,
    published_checksum,
)
from harness.artifacts.download import trouble
from harness.artifacts.external_mirror import disk_image, missing_artifacts
from harness.artifacts.node_images import BUSYBOX
from harness.artifacts.recipe import LIMITS, ArtifactLimits, ArtifactPhase, Event, Progress, Ref, Source
from harness.artifacts.serving import Supply
from harness.artifacts.store import Store
from harness.cell.place import cell_labels, namespace_name
from harness.cell.product import kinds
from harness.cell.site import Site
from harness.infra.cluster.trial import SCRIPT_SECONDS, NetworkTrial
from harness.infra.findings import Finding, raise_if_any
from harness.infra.kind import releases
from harness.kube.api import PATIENT, Patience
from harness.kube.client import Cluster
from harness.machines.kubevirt.manifests import GoldenImage
from harness.model import Cell, Mirror
from harness.paths import MATRIX
from harness.providers import offered
from harness.providers.definition import Opening, Provider
from harness.providers.on_host import KUBERNETES
from harness.spec.models import DiskImage, Timeouts, UrlSource
from harness.spec.project import Project, anywhere, matrix_dir, timeouts_of
from harness.spec.rules import needed
from harness.spec.settings import ImageMirror, Settings, blows, networks_of
from harness.spec.suites import FROM_UPSTREAM
from harness.threads import alongside, in_background
from harness.until import stand_on

OnProgress = Callable[[str], None]


def store_of(settings: Settings, timeouts: Timeouts) -> Store:
    """Return the artifacts, from the source that the settings name."""
    return Store(source=Source(settings.artifact_source), limits=ArtifactLimits.of(timeouts))


def spoken(progress: OnProgress) -> Progress:
    """Turn the artifacts' events into lines: what is made, for how long already, and how long it will take."""

    def tell(event: Event) -> None:
        whole = event.whole
        if event.phase is ArtifactPhase.RUNNING and whole is not None:
            progress(f"making {whole.names}: {whole.times}")
        elif event.phase is not ArtifactPhase.CACHED:
            progress(f"{event.ref}: {event.phase.value} ({event.elapsed:.0f} s)")

    return tell


def open_cluster(settings: Settings, timeouts: Timeouts | None = None) -> Cluster:
    """Open the infra cluster, which must be up.

    Args:
        timeouts: of the project; None for commands that need no matrix.

    Raises:
        BadInput: it is not up.
    """
    patience = Patience.of(timeouts) if timeouts is not None else PATIENT
    infra = providers.of(settings).infra(settings)
    _stand_on_it(settings)
    return infra.open(patience)


def keeper(settings: Settings, timeouts: Timeouts, tell: OnProgress) -> AbstractContextManager[object]:
    """Return what keeps the infra cluster of these settings whole while its body runs; `tell`: told what it did."""
    opening = Opening(settings, store=store_of(settings, timeouts), timeouts=timeouts)
    return providers.of(settings).keeper(opening, tell)


def _stand_on_it(settings: Settings) -> None:
    ground = providers.of(settings).ground(settings)
    if ground is not None:
        stand_on(ground)


def coming(settings: Settings) -> list[str]:
    """Return what a run with these settings is about to bring up."""
    return providers.of(settings).coming(settings)


def first_look(project: Project, cells: Sequence[Cell]) -> list[Finding]:
    """Return what keeps cells from their infra cluster, as far as that is known before anything is made."""
    settings = project.settings
    definition, store = providers.of(settings), store_of(settings, project.timeouts)
    needs = needed(project.spec, cells)
    room = definition.lacking(cells, definition.pods_mib(settings, needs))
    return [*room, *definition.first_look(Opening(settings, project.product, store, needs=needs))]


def open_site(
    project: Project, cells: Sequence[Cell], *, progress: OnProgress, suites: Collection[str] | None = None
) -> Site:
    """Obtain what the cells and the product need, bring the infra cluster up, and return it as the cells see it.

    Args:
        suites: that run in the cells, where these are known.

    Raises:
        BadInput: the host, the cluster or the product lacks something.  InfraError: the infra cluster did not come up.
    """
    settings = project.settings
    timeouts = project.timeouts
    held = kinds.prepare(project, cells, progress)
    definition, store, tell = providers.of(settings), store_of(settings, timeouts), spoken(progress)
    offer = offered.offer_of(project, cells, store.catalogue, suites)
    controllers = offered.controllers(project, cells, store.catalogue)
    images = tuple(dict.fromkeys((*offer.images, *controllers.values())))
    needs = needed(project.spec, cells)
    opening = Opening(settings, project.product, store, images, offer.uploads, tell, progress, timeouts=timeouts)
    provider = definition.open(replace(opening, needs=needs))
    raise_if_any(definition.lacking(cells, definition.pods_mib(settings, needs)))
    below = refs.host(store.catalogue, definition.control_plane) if definition.control_plane else ()
    wanted = tuple(dict.fromkeys((*below, *offer.programs, *images)))
    if not definition.has_mirror:
        wanted = _not_there(provider.mirror(), wanted, suites, progress)
    absent = [ref for ref in wanted if store.cached(ref) is None]
    if absent:
        progress(f"{len(absent)} artifacts are not cached and are made first; cached ones take no time")
    with alongside(lambda: _disks(project, cells, provider.mirror(), progress), progress) if absent else nullcontext():
        store.ensure(wanted, tell)
    in_background(partial(_trim, progress), progress)
    found = offered.publish(offer, store)
    provider.up()
    told = offered.told(offer, found, store, definition, provider.mirror())
    return replace(_site(project, provider, progress, told, controllers), held=held)


def _trim(progress: OnProgress) -> None:
    """Cut Go's caches back: half a minute of the disk after a first run's builds, in which cells can begin."""
    if freed := go_toolchain.trim_caches():
        progress(f"{freed / 1e6:.0f} MB of what the builds left in Go's caches removed")


def _not_there(
    mirror: Mirror, wanted: Sequence[Ref], suites: Collection[str] | None, progress: OnProgress
) -> tuple[Ref, ...]:
    """Return what a mirror of somebody else's lacks, and what the checks run on this side."""
    here = refs.CHECKING if suites is None or not FROM_UPSTREAM.isdisjoint(suites) else ()
    guests = [ref for ref in wanted if ref.name not in refs.TESTING]
    lacking = {*missing_artifacts(mirror, guests)}
    if there := len(guests) - len(lacking):
        progress(f"{there} artifacts are at {mirror.http} and {mirror.registry} already")
    return tuple(ref for ref in wanted if ref in lacking or ref.name in here)


def _disks(project: Project, cells: Sequence[Cell], mirror: Mirror, progress: OnProgress) -> None:
    """Build the disk images of cells' machines that are not there yet."""
    known, limits = catalogue.load(matrix_dir() / "images.yml"), ArtifactLimits.of(project.timeouts)
    for name in sorted({machine.image for cell in cells for machine in cell.machines}):
        entry = known.find(name)
        if not isinstance(entry.source, UrlSource):
            _built(project.settings, entry, mirror, progress, limits)


def _built(
    settings: Settings, entry: DiskImage, mirror: Mirror, progress: OnProgress, limits: ArtifactLimits
) -> CachedImage:
    """Return a disk image that vmatrix builds: from the cache, or as somebody else's mirror has it, or built now."""
    cache = ImageCache(limits=limits)
    served = None
    if cache.cached(entry) is None and not providers.of(settings).has_mirror:
        served = disk_image(_images_url(settings, mirror), entry.name, cache.key(entry))
    return served or cache.ensure(entry, progress)


def _images_url(settings: Settings, mirror: Mirror) -> str:
    return settings.image_url or f"{mirror.http}/images"


def join_site(
    project: Project, cells: Sequence[Cell], *, suites: Collection[str] = (), progress: OnProgress = lambda _: None
) -> Site:
    """Return the infra cluster that is up; nothing is started.

    Args:
        suites: whose own images a mirror of ours is to have. They are obtained where it does not.
    """
    settings = project.settings
    definition, store = providers.of(settings), store_of(settings, project.timeouts)
    offer = offered.offer_of(project, cells, store.catalogue)
    provider = definition.open(Opening(settings, project.product, store))
    if definition.has_mirror and (images := offered.of_suites(store.catalogue, suites, cells)):
        Supply(definition.control_plane, images, store, spoken(progress)).publish(provider.mirror().registry)
    told = offered.told(offer, offered.publish(offer, store), store, definition, provider.mirror())
    controllers = offered.controllers(project, cells, store.catalogue)
    return _site(project, provider, lambda _: None, told, controllers)


def _site(
    project: Project,
    provider: Provider,
    progress: OnProgress,
    told: offered.ProductVariables,
    controllers: Mapping[str, Ref],
) -> Site:
    settings, limits = project.settings, ArtifactLimits.of(project.timeouts)
    return Site(
        cluster=open_cluster(settings, project.timeouts),
        spec=project.spec,
        timeouts=project.timeouts,
        mirror=provider.mirror(),
        guest_vars=provider.guest_vars(),
        spare=provider.spare_addresses,
        product_vars=told,
        controller_images={n: f"{provider.mirror().registry}/{n}:{ref.version}" for n, ref in controllers.items()},
        deliveries=provider.deliveries(),
        pulls=provider.pulls(),
        blows=blows(settings.chaos),
        image=lambda name: golden_image(settings, name, provider.mirror(), progress=progress, limits=limits),
        storage_class=settings.storage_class,
        access=settings.access or provider.access(),
        infra=providers.of(settings).infra(settings).absolute(),
        binding=settings.binding,
        isolated=settings.network_policy,
        egress_networks=networks_of(settings.network_policy_egress),
        ingress_networks=networks_of(settings.network_policy_ingress),
        timeout_scale=settings.timeout_scale,
        project=project.directory,
        expiry_hours=settings.expiry_hours,
        namespace=settings.namespace,
        options=tuple(providers.of(settings).options(settings)),
    )


def golden_image(
    settings: Settings, name: str, mirror: Mirror, *, progress: OnProgress, limits: ArtifactLimits = LIMITS
) -> GoldenImage:
    """Return a disk image as the infra cluster imports it: built and served by the mirror, or an upstream URL."""
    entry = catalogue.load(matrix_dir() / "images.yml").find(name)
    mirrors = image_mirror(settings)
    if mirrors is not None:
        entry = from_mirror(mirrors, entry)
    needed: Mapping[str, str] = {}
    if isinstance(entry.source, UrlSource):
        hint = MIRROR_HINT if mirrors else CHECKSUM_HINT
        url, checksum = entry.source.url, published_checksum(entry.source, hint=hint)
        named = {"credentials": entry.source.credentials, "certificates": entry.source.certificates}
        needed = {key: value for key, value in named.items() if value}
    else:
        built = _built(settings, entry, mirror, progress, limits)
        url = f"{_images_url(settings, mirror)}/{built.file}"
        checksum = f"sha256:{built.sha256}"
    digest = checksum.partition(":")[2]
    return GoldenImage(f"{name}-{digest[:12]}", url, checksum, f"{entry.size_gib}Gi", entry.user, **needed)


def image_mirror(settings: Settings) -> ImageMirror | None:
    """Return the mirror of published images that the settings name."""
    if settings.image_mirror is None:
        return None
    return ImageMirror.parse(
        settings.image_mirror, settings.image_mirror_credentials, settings.image_mirror_certificates
    )


def image_findings(settings: Settings) -> list[Finding]:
    """Return which published images the mirror of the settings lacks, as far as this host can tell."""
    mirror, found = image_mirror(settings), list[Finding]()
    if mirror is None:
        return found
    for image in catalogue.load(anywhere() / MATRIX / "images.yml").images:
        mirrored = mirror.image(image)
        for url in published_addresses(mirrored) if mirrored != image else ():
            said = trouble(url)
            if said is not None:
                why = f"cells with {image.name} import it from there"
                found.append(Finding(f"{url} {said}", why, MIRROR_HINT, fatal=False))
    return found


def kubectl(settings: Settings) -> Path:
    """Return the program kubectl from the artifacts, made first if need be."""
    return store_of(settings, timeouts_of(settings)).obtain("kubectl", KUBERNETES).file("kubectl")


def pin_releases(file: Path | None) -> Iterator[tuple[str, str]]:
    """Record the checksums that deploy/kind/releases.yml (or another file) lacks; yield each with its URL.

    Raises:
        BadInput: the file is wrong, or the project has none.  InfraError: a manifest cannot be downloaded.
    """
    for manifest, checksum in releases.pin(file or releases.own_file()):
        yield checksum, manifest.url


CELL = "doctor"


def trial_of(settings: Settings, timeouts: Timeouts) -> NetworkTrial:
    """Return a fresh dry run."""
    run, seconds = secrets.token_hex(3), timeouts.doctor_pods
    expires_at = time.time() + 2 * seconds + SCRIPT_SECONDS  # each pod has as long
    busybox = refs.newest(load(), BUSYBOX)
    image = f"{settings.registry}/{BUSYBOX.removeprefix(IMAGE_PREFIX)}:{busybox.version}"
    return NetworkTrial(
        name=namespace_name(run, CELL, 1) if settings.namespace is None else f"{CELL}-{run}-1",
        labels=cell_labels(run=run, cell=CELL, attempt=1, expires_at=expires_at),
        shared=settings.namespace,
        images=(image,) if settings.registry is not None else (),
        seconds=seconds,
    )

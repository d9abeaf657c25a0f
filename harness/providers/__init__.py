"""Where the parts are put together: settings, provider, site. The only module that knows infra and artifacts."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import paths
from harness.artifacts import refs
from harness.artifacts.disk import catalogue, fetch
from harness.artifacts.disk.cache import ImageCache
from harness.artifacts.recipe import ArtifactPhase, Event, Progress, Ref, Source
from harness.artifacts.store import Store
from harness.cell import manifests
from harness.cell.manifests import GoldenImage
from harness.cell.site import Site
from harness.errors import BadInput
from harness.infra.cluster import nested
from harness.infra.cluster.checks import Use
from harness.infra.cluster.need import Need
from harness.infra.embedded.provider import LocalProvider
from harness.infra.findings import raise_if_any
from harness.infra.host import preflight
from harness.infra.host.layout import layout_of
from harness.infra.kind.provider import KindProvider
from harness.infra.kubeconfig import KubeconfigProvider
from harness.infra.provider import Provider
from harness.kube.client import Cluster
from harness.kube.in_cluster import in_cluster_kubeconfig
from harness.kube.transport import PATIENT
from harness.model import Cell, Mirror
from harness.providers.embedded import INFRA_VERSION, local_provider
from harness.providers.kind import kind_layout, kind_provider
from harness.spec import Spec
from harness.spec.models import UrlSource
from harness.spec.settings import Settings

MOST_WORKERS = 16  # a worker is a Python process of about 100 MiB
OnProgress = Callable[[str], None]


def store_of(settings: Settings) -> Store:
    """Return the artifacts, from the source that the settings name."""
    return Store(source=Source(settings.artifact_source))


def spoken(progress: OnProgress) -> Progress:
    """Turn the artifacts' events into lines: what is made, for how long already, and how long it usually takes."""

    def tell(event: Event) -> None:
        if event.phase is not ArtifactPhase.CACHED:
            progress(f"{event.ref}: {event.phase.value} ({event.elapsed:.0f} of about {event.expected:.0f} s)")

    return tell


def own_provider(
    settings: Settings, store: Store, *, progress: Progress, say: OnProgress, images: Sequence[Ref] = ()
) -> LocalProvider | KindProvider:
    """Return the infra cluster of this host that the settings name: the embedded one, or one of kind."""
    name = settings.infra_name
    if settings.provider == "kind":
        return kind_provider(name, store, progress=progress, say=say, images=images, kubevirt=settings.kubevirt)
    return local_provider(name, store, progress=progress, images=images)


def provider_options(settings: Settings) -> list[str]:
    """Return the options that name the same infra cluster to another vmatrix command."""
    within = ["--namespace", settings.namespace] if settings.namespace is not None else []
    if settings.provider == "kubeconfig":
        return ["--provider", "kubeconfig", "--kubeconfig", str(kubeconfig_of(settings)), *within]
    if settings.provider == "kind":
        within = ["--provider", "kind", *within]
    return [*(["--infra-name", settings.infra_name] if settings.infra_name != "default" else []), *within]


def open_cluster(settings: Settings) -> Cluster:
    """Open the infra cluster that exists; bring nothing up.

    Raises:
        BadInput: there is none.
    """
    path, context = way_in(settings)
    return Cluster.from_kubeconfig(path, context=context, patience=PATIENT)


def way_in(settings: Settings) -> tuple[Path, str | None]:
    """Return the kubeconfig of the infra cluster that exists, and the context in it (None: its current one).

    Raises:
        BadInput: there is none.
    """
    if settings.provider == "kubeconfig":
        return kubeconfig_of(settings), settings.context
    kind = settings.provider == "kind"
    path = (kind_layout if kind else layout_of)(settings.infra_name).kubeconfig
    if not path.is_file():
        raise BadInput(
            f"the {'kind instance' if kind else 'embedded infrastructure'} {settings.infra_name!r} is not up",
            hint=f"vmatrix infra up{' --provider kind' if kind else ''} --name {settings.infra_name}",
        )
    return path, None


def kubeconfig_of(settings: Settings) -> Path:
    """Return the kubeconfig of the infra cluster; in a pod, without one in the settings, its service account's.

    Raises:
        BadInput: there is none.
    """
    if settings.kubeconfig is not None:
        return settings.kubeconfig
    own = _own_kubeconfig()
    if own is None:
        raise BadInput("provider kubeconfig needs a kubeconfig", hint="pass --kubeconfig PATH or set it in vmatrix.yml")
    return own


def _own_kubeconfig() -> Path | None:
    """Return a kubeconfig of the service account of the pod that this process runs in, None outside of one."""
    return in_cluster_kubeconfig(paths.state_dir() / "in-cluster.kubeconfig", os.environ)


def refuse_unusable(settings: Settings) -> None:
    """Look whether the settings lead to an infra cluster at all; nothing is asked of it yet.

    Raises:
        BadInput: a setting that the provider needs is missing, or the kubeconfig cannot be used.
    """
    if settings.provider == "kubeconfig":
        provider = kubeconfig_provider(settings)
        Cluster.from_kubeconfig(provider.kubeconfig(), context=settings.context)


def open_site(settings: Settings, spec: Spec, cells: Sequence[Cell], *, progress: OnProgress) -> Site:
    """Obtain what the cells need, bring the infra cluster up, and return it as the cells see it.

    Raises:
        BadInput: the host or the cluster lacks something.  InfraError: the infra cluster did not come up.
    """
    store = store_of(settings)
    tell = spoken(progress)
    below = INFRA_VERSION if settings.provider == "embedded" else ""
    moments = [phase.vars for cell in cells for phase in cell.phases]
    wanted = [ref for given in moments for ref in refs.for_cell(store.catalogue, given, infra_version=below)]
    provider: Provider
    if settings.provider != "kubeconfig":
        images = [ref for given in moments for ref in refs.images(store.catalogue, _version(given), given)]
        provider = own_provider(settings, store, progress=tell, say=progress, images=tuple(dict.fromkeys(images)))
    else:
        provider = kubeconfig_provider(settings, paths.project_dir() / spec.product.directory)
    if settings.provider != "kubeconfig":
        largest = max(sum(m.memory_mib for m in cell.machines) for cell in cells)
        most = max(len(cell.machines) for cell in cells)
        raise_if_any([*preflight.check_memory(largest), *preflight.check_disks(paths.state_dir(), most)])
    store.ensure(tuple(dict.fromkeys(wanted)), tell)
    provider.up()
    return _site(settings, spec, provider, progress)


def join_site(settings: Settings, spec: Spec) -> Site:
    """Return the infra cluster that another process of this run has brought up; nothing is obtained or started."""
    provider: Provider
    if settings.provider != "kubeconfig":
        provider = own_provider(settings, store_of(settings), progress=lambda _: None, say=lambda _: None)
    else:
        provider = kubeconfig_provider(settings, paths.project_dir() / spec.product.directory)
    return _site(settings, spec, provider, lambda _: None)


def _site(settings: Settings, spec: Spec, provider: Provider, progress: OnProgress) -> Site:
    return Site(
        cluster=Cluster.from_kubeconfig(provider.kubeconfig(), context=settings.context, patience=PATIENT),
        spec=spec,
        timeouts=spec.timeouts.scaled(settings.timeout_scale),
        mirror=provider.mirror(),
        guest_vars=provider.guest_vars(),
        image=lambda name: golden_image(settings, name, provider.mirror(), progress=progress),
        storage_class=settings.storage_class,
        access=settings.access or provider.access(),
        kubeconfig=provider.kubeconfig().resolve(),
        context=settings.context,
        binding=settings.binding,
        project=paths.project_dir(),
        expiry_hours=settings.expiry_hours,
        namespace=settings.namespace,
    )


def _version(variables: Mapping[str, Any]) -> str:
    return str(variables["cluster_kubernetes_version"])


def most_cells(settings: Settings, cells: Sequence[Cell]) -> int:
    """Return how many of the cells could be under way at once at most, before anything is known of the infra cluster.

    On the embedded infrastructure that is how many of the smallest fit into this host's free memory.
    """
    if settings.provider == "kubeconfig":
        return MOST_WORKERS
    smallest = min(sum(m.memory_mib for m in cell.machines) for cell in cells)
    return max(1, min(MOST_WORKERS, preflight.memory_available_mib() // smallest))


def use_of(settings: Settings, product: Path, need: Need | None = None) -> Use:
    """Return what a cluster that exists is to be used for, as its checks need to know it.

    Args:
        product: the product's directory.
        need: of the largest cell, as far as it is known.

    Raises:
        BadInput: the file of guests' variables cannot be used.
    """
    return Use(
        namespace=settings.namespace,
        storage_class=settings.storage_class,
        need=need or Need(),
        networks=nested.networks(product, nested.read_vars(settings.guest_vars)),
        outer=tuple(n.strip() for n in (settings.outer_networks or "").split(",") if n.strip()),
        bridged=settings.binding == "bridge",
    )


def kubeconfig_provider(settings: Settings, product: Path | None = None) -> KubeconfigProvider:
    """Return the provider of a cluster that exists.

    Args:
        product: the product's directory; without it the guests' networks are not looked at.

    Raises:
        BadInput: settings that it needs are missing.
    """
    has_own = settings.kubeconfig is None and _own_kubeconfig() is not None
    needed = ("mirror_http", "registry") if has_own else ("kubeconfig", "mirror_http", "registry")
    missing = [n for n in needed if getattr(settings, n) is None]
    if missing:
        raise BadInput(
            f"provider kubeconfig needs the setting {' and '.join(missing)}",
            hint="guests pull binaries and images from a mirror: `vmatrix artifacts serve` runs one",
        )
    mirror = Mirror(http=str(settings.mirror_http), registry=str(settings.registry))
    use = use_of(settings, product or Path())
    given = nested.read_vars(settings.guest_vars)
    return KubeconfigProvider(kubeconfig_of(settings), settings.context, mirror, use, given)


def golden_image(settings: Settings, name: str, mirror: Mirror, *, progress: OnProgress) -> GoldenImage:
    """Return a disk image as the infra cluster imports it: built here and served by the mirror, or an upstream URL."""
    entry = catalogue.load(paths.project_dir() / "matrix" / "images.yml").find(name)
    needed: Mapping[str, str] = {}
    if isinstance(entry.source, UrlSource):
        url, checksum = entry.source.url, fetch.checksum(entry.source)
        named = {"credentials": entry.source.credentials, "certificates": entry.source.certificates}
        needed = {key: value for key, value in named.items() if value}
    else:
        built = ImageCache().ensure(entry, progress)
        url = f"{settings.image_url or mirror.http + '/images'}/{built.file}"
        checksum = f"sha256:{built.sha256}"
    digest = checksum.partition(":")[2]
    return GoldenImage(f"{name}-{digest[:12]}", url, checksum, f"{entry.size_gib}Gi", entry.user, **needed)


def artifact(settings: Settings, name: str, version: str) -> Path:
    """Return the directory of an artifact's files."""
    return store_of(settings).obtain(name, version).directory / "files"


def example_manifests(cell: Cell) -> list[dict[str, Any]]:
    """Return the manifests of a cell with placeholders for what only a run knows."""
    plan = manifests.CellPlan(
        namespace=f"vmatrix-{cell.id}-RUN-1",
        labels={"vmatrix.dev/cell": cell.id},
        expires_at=0.0,
        public_key="ssh-ed25519 PUBLIC-KEY-OF-THE-CELL",
        dns_domain=str(cell.vars.get("cluster_dns_domain", "cluster.local")),
        storage_class=None,
    )
    image = GoldenImage(
        name=f"{cell.machines[0].image}-CHECKSUM",
        url="http://MIRROR/images/IMAGE.qcow2",
        checksum="sha256:CHECKSUM",
        size="10Gi",
        user="USER",
    )
    return manifests.render_all(plan, cell.machines, image, directory=paths.project_dir() / "vm-templates")

"""Provider `kind`: a cluster in a container, with a release of KubeVirt or the embedded one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from shutil import which
from typing import Any

from harness.artifacts import refs
from harness.artifacts.node import rootfs
from harness.artifacts.node.cache import NodeImages
from harness.artifacts.recipe import Progress
from harness.artifacts.serving import Supply
from harness.artifacts.store import Store
from harness.errors import BadInput
from harness.infra.cluster.checks import Use, check_pod_network
from harness.infra.findings import Finding
from harness.infra.host.layout import layout_of
from harness.infra.kind import config, host
from harness.infra.kind.config import KindConfig, KindLimits, OwnNode
from harness.infra.kind.provider import NAME, KindProvider
from harness.infra.kvm import trial
from harness.providers.definition import Opening
from harness.providers.on_host import KUBERNETES, OnHost, supplied
from harness.spec.settings import Settings


class KindDefinition(OnHost):
    """Provider `kind`."""

    name = NAME
    choices = frozenset({"kubevirt", "kubernetes", "node_image", "releases", "kvm", "pods"})

    def instance(self, opening: Opening) -> KindProvider:
        """Return the kind instance that the settings name."""
        return kind_provider(opening)

    def check(self, settings: Settings, memory_mib: int | None, use: Callable[[], Use]) -> tuple[str, list[Finding]]:
        """Look at this host, and try the pod network of an instance that is up."""
        made = config.load_record(layout_of(settings.infra_name, NAME))
        embedded = (settings.kubevirt or (made.kubevirt if made is not None else "release")) == "embedded"
        found = host.check(embedded=embedded, builds_node=True, memory_mib=memory_mib or 0)
        if embedded:
            return "this host", found
        found += trial.kvm_findings(settings.kvm or (made.kvm if made is not None else "auto"))
        kubeconfig = layout_of(settings.infra_name, NAME).kubeconfig
        if made is None or not kubeconfig.is_file():
            return "this host", found
        return f"this host, with instance {settings.infra_name}", [*found, *check_pod_network(kubeconfig, None, use())]

    def machines_like(self, settings: Settings) -> str:
        """Return the provider whose machines its KubeVirt's are like: as the instance was made, or is asked for."""
        made = config.load_record(layout_of(settings.infra_name, NAME))
        kubevirt = made.kubevirt if made is not None else settings.kubevirt
        return "embedded" if kubevirt == "embedded" else "kubeconfig"


def kind_provider(opening: Opening) -> KindProvider:
    """Return the kind instance that the settings name.

    Raises:
        BadInput: the catalogue does not have the Kubernetes version.
    """
    store, settings, chosen = opening.store, opening.settings, opening.choices
    layout = layout_of(settings.infra_name, NAME)
    made = config.load_record(layout)
    version = _version(chosen, made.version if made is not None else KUBERNETES, store)
    node_image = chosen.get("node_image")
    nodes = NodeImages(store)

    def own_node() -> OwnNode:
        image = nodes.ensure(version, opening.say, opening.progress)
        return OwnNode(image.reference, image.archive, rootfs.REPOSITORY)

    kind = KindConfig(
        kubevirt=settings.kubevirt,
        version=version,
        node_image=node_image,
        releases=settings.releases.resolve() if settings.releases is not None else None,
        kvm=settings.kvm,
        kind=lambda: kind_program(store, opening.progress),
        own_node=own_node,
        own_node_made=lambda: node_image is None and nodes.cached(version) is not None,
        say=opening.say,
        limits=KindLimits() if opening.timeouts is None else KindLimits.of(opening.timeouts),
    )
    needed = (*(refs.newest(store.catalogue, program) for program in refs.SERVING), *opening.images)
    supply = Supply(version, opening.images, store, opening.progress, opening.uploads)
    return KindProvider(supplied(layout, supply, needed, opening.timeouts), kind)


def _version(chosen: Mapping[str, Any], usual: str, store: Store) -> str:
    version = str(chosen.get("kubernetes") or usual)
    if version not in store.catalogue.kubernetes and chosen.get("node_image") is None:
        known = ", ".join(store.catalogue.kubernetes)
        raise BadInput(f"Kubernetes {version} is not in the catalogue (it has {known})", hint="--kubernetes VERSION")
    return version


def kind_program(store: Store, progress: Progress) -> Path:
    """Return the program `kind`: the one on PATH, or else the pinned one from the artifacts."""
    on_path = which("kind")
    if on_path is not None:
        return Path(on_path)
    ref = refs.newest(store.catalogue, rootfs.KIND)
    return store.obtain(ref.name, ref.version, progress).file("kind")


PROVIDER = KindDefinition()

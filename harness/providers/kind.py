"""Where the provider `kind` gets its programs, its node image and its mirror from: the artifacts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import which

from harness.artifacts import refs
from harness.artifacts.node import contents
from harness.artifacts.node.cache import NodeImages
from harness.artifacts.recipe import Progress, Ref
from harness.artifacts.store import Store
from harness.artifacts.supply import Supply
from harness.errors import BadInput
from harness.infra.host.layout import Layout, instances_dir, layout_of
from harness.infra.kind import record, releases
from harness.infra.kind.config import KindConfig, KubeVirt, OwnNode
from harness.infra.kind.provider import KindProvider
from harness.providers.embedded import supplied

KUBERNETES = "1.36.3"  # of the cluster, unless another is asked for


def kind_layout(name: str) -> Layout:
    """Return where the files of a kind instance lie, and what identifies it on the host."""
    return layout_of(name, instances_dir().with_name("kind"))


def is_embedded(name: str, kubevirt: KubeVirt | None) -> bool:
    """Tell whether machines of an instance are our own part's: as it was made, or else as it is asked for."""
    made = record.load(kind_layout(name))
    return (made.kubevirt if made is not None else kubevirt) == "embedded"


def kind_provider(
    name: str,
    store: Store,
    *,
    progress: Progress,
    say: Callable[[str], None],
    images: Sequence[Ref] = (),
    kubevirt: KubeVirt | None = None,
    version: str | None = None,
    node_image: str | None = None,
    releases_file: Path | None = None,
) -> KindProvider:
    """Return the kind instance of that name.

    Args:
        images: what guests may pull from its mirror.
        kubevirt, node_image, releases_file: see KindConfig.
        version: of Kubernetes; without it the instance's, or else KUBERNETES.
    """
    made = record.load(kind_layout(name))
    version = version or (made.version if made is not None else KUBERNETES)
    if version not in store.catalogue.kubernetes and node_image is None:
        known = ", ".join(store.catalogue.kubernetes)
        raise BadInput(f"Kubernetes {version} is not in the catalogue (there are {known})", hint="--kubernetes VERSION")
    supply = Supply(version, images, store, progress)
    needed = (*(refs.newest(store.catalogue, program) for program in refs.SERVING), *images)
    nodes = NodeImages(store)

    def own_node() -> OwnNode:
        made = nodes.ensure(version, say, progress)
        return OwnNode(made.reference, made.archive, contents.REPOSITORY)

    kind = KindConfig(
        kubevirt=kubevirt,
        version=version,
        node_image=node_image,
        releases=releases_file or releases.default_file(),
        kind=lambda: kind_program(store, progress),
        own_node=own_node,
        own_node_made=lambda: node_image is None and nodes.cached(version) is not None,
        say=say,
    )
    return KindProvider(supplied(kind_layout(name), supply, needed), kind)


def kind_program(store: Store, progress: Progress) -> Path:
    """Return the program `kind`: the one on PATH, or else the pinned one from the artifacts."""
    on_path = which("kind")
    if on_path is not None:
        return Path(on_path)
    ref = refs.newest(store.catalogue, contents.KIND)
    return store.obtain(ref.name, ref.version, progress).file("kind")

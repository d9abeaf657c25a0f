"""Where the infra clusters of this host get their programs, their mirror and what is in it from: the artifacts."""

from __future__ import annotations

from collections.abc import Sequence

from harness.artifacts import refs
from harness.artifacts.recipe import Progress, Ref
from harness.artifacts.store import Store
from harness.artifacts.supply import Supply
from harness.infra.embedded.provider import LocalProvider
from harness.infra.host.config import LocalConfig
from harness.infra.host.layout import Layout, layout_of

INFRA_VERSION = "1.36.3"  # of the embedded control plane itself


def local_provider(name: str, store: Store, *, progress: Progress, images: Sequence[Ref] = ()) -> LocalProvider:
    """Return the embedded infrastructure of that name, its programs and images coming from the artifacts."""
    needed = (*refs.host(store.catalogue, INFRA_VERSION), *images)
    return LocalProvider(supplied(layout_of(name), Supply(INFRA_VERSION, images, store, progress), needed))


def supplied(layout: Layout, supply: Supply, needed: Sequence[Ref]) -> LocalConfig:
    """Return an infra cluster of this host that is supplied with artifacts.

    Args:
        needed: what has to be made before it can come up.
    """
    store = supply.store
    return LocalConfig(
        layout,
        binaries=supply.program,
        mirror=supply.mirror,
        registry=supply.registry,
        publish=supply.publish,
        prepare=lambda: store.ensure(needed, supply.progress),
        prepared=lambda: all(store.cached(ref) is not None for ref in needed),
    )

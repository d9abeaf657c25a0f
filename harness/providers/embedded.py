"""Provider `embedded`: a real control plane and the embedded KubeVirt on this host."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.artifacts import refs
from harness.artifacts.product.pushed import Upload
from harness.artifacts.recipe import Progress, Ref
from harness.artifacts.store import Store
from harness.artifacts.supply import Supply
from harness.infra.cluster.checks import Use
from harness.infra.embedded.provider import NAME, EmbeddedProvider
from harness.infra.findings import Finding
from harness.infra.host import preflight
from harness.infra.host.layout import layout_of
from harness.providers.definition import Opening
from harness.providers.on_host import KUBERNETES, OnHost, supplied
from harness.spec.models import Timeouts
from harness.spec.settings import Settings


class EmbeddedDefinition(OnHost):
    """Provider `embedded`."""

    name = NAME
    control_plane = KUBERNETES
    per_job = True

    def instance(self, opening: Opening) -> EmbeddedProvider:
        """Return the embedded infrastructure that the settings name."""
        return embedded_provider(
            opening.settings.infra_name,
            opening.store,
            progress=opening.progress,
            images=opening.images,
            uploads=opening.uploads,
            timeouts=opening.timeouts,
        )

    def check(self, settings: Settings, memory_mib: int | None, use: Callable[[], Use]) -> tuple[str, list[Finding]]:
        """Look at this host."""
        memory = preflight.CONTROL_PLANE_MIB + (memory_mib or 0)
        return "this host", preflight.check_host(memory_mib=memory)


def embedded_provider(
    name: str,
    store: Store,
    *,
    progress: Progress,
    images: Sequence[Ref] = (),
    uploads: Sequence[Upload] = (),
    timeouts: Timeouts | None = None,
) -> EmbeddedProvider:
    """Return the embedded infrastructure of that name. `images`, `uploads`: what guests may pull from its mirror."""
    needed = (*refs.host(store.catalogue, KUBERNETES), *images)
    supply = Supply(KUBERNETES, images, store, progress, uploads)
    return EmbeddedProvider(supplied(layout_of(name, NAME), supply, needed, timeouts))


PROVIDER = EmbeddedDefinition()

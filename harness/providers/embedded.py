"""Provider `embedded`: a real control plane and the embedded KubeVirt on this host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from harness.artifacts import refs
from harness.artifacts.catalogue import IMAGE_PREFIX
from harness.artifacts.disk import catalogue
from harness.artifacts.disk.build import Say
from harness.artifacts.disk.cache import ImageCache
from harness.artifacts.product.images import Upload
from harness.artifacts.recipe import Progress, Ref
from harness.artifacts.serving import Supply
from harness.artifacts.store import Store
from harness.infra.cluster.checks import Use
from harness.infra.embedded.provider import NAME, EmbeddedProvider
from harness.infra.findings import Finding
from harness.infra.host import preflight, processes, services
from harness.infra.host.layout import layout_of, load_record
from harness.infra.pods.machine import MEMORY_MIB, BootDisk
from harness.paths import MATRIX, packaged_dir
from harness.providers.definition import Opening
from harness.providers.on_host import KUBERNETES, OnHost, supplied
from harness.spec.base import Feature
from harness.spec.models import Timeouts
from harness.spec.project import TEMPLATES
from harness.spec.settings import Settings

PODS_IMAGE = "debian-13"
PODS: Feature = "pods"


class EmbeddedDefinition(OnHost):
    """Provider `embedded`."""

    name = NAME
    control_plane = KUBERNETES
    per_job = True
    choices = frozenset({PODS})

    def instance(self, opening: Opening) -> EmbeddedProvider:
        """Return the embedded infrastructure that the settings name."""
        made = load_record(layout_of(opening.settings.infra_name, NAME))
        wanted = PODS in opening.needs or bool(opening.choices.get(PODS))
        return embedded_provider(
            opening.settings.infra_name,
            opening.store,
            progress=opening.progress,
            images=opening.images,
            uploads=opening.uploads,
            timeouts=opening.timeouts,
            pods=wanted or (made is not None and made.pods),
            say=opening.say,
        )

    def check(self, settings: Settings, memory_mib: int | None, use: Callable[[], Use]) -> tuple[str, list[Finding]]:
        """Look at this host."""
        memory, pods_mib = preflight.CONTROL_PLANE_MIB + (memory_mib or 0), self.pods_mib(settings, frozenset())
        found = preflight.check_host(memory_mib=memory, pods_mib=pods_mib)
        more = 0 if pods_mib else self.pods_mib(settings, frozenset({PODS}))
        return "this host", [*found, *preflight.advise_pods(memory, more)]

    def pods_mib(self, settings: Settings, needs: frozenset[Feature]) -> int:
        """Return the memory of the machine that runs pods: all that its pods may come to use, unless it runs already.

        What it uses then is not available any more, and the infra cluster counts what it may use.
        """
        layout = layout_of(settings.infra_name, NAME)
        made = load_record(layout)
        has = made is not None and made.pods
        if has and made is not None and made.usable and processes.runs(layout, services.KUBEVIRT):
            return 0
        return MEMORY_MIB if has or PODS in needs else 0


def embedded_provider(
    name: str,
    store: Store,
    *,
    progress: Progress,
    images: Sequence[Ref] = (),
    uploads: Sequence[Upload] = (),
    timeouts: Timeouts | None = None,
    pods: bool = False,
    say: Say = lambda _: None,
) -> EmbeddedProvider:
    """Return the embedded infrastructure of that name.

    Args:
        images, uploads: what guests may pull from its mirror.
        pods: whether it runs pods of its own.
        say: told how the boot disk of the machine for these is made.
    """
    needed = (*refs.host(store.catalogue, KUBERNETES), *images)
    if not pods:
        supply = Supply(KUBERNETES, images, store, progress, uploads)
        return EmbeddedProvider(supplied(layout_of(name, NAME), supply, needed, timeouts))
    of_pods = refs.pods(store.catalogue, KUBERNETES)
    own = tuple(ref for ref in of_pods if ref.name.startswith(IMAGE_PREFIX))
    supply = Supply(KUBERNETES, tuple(dict.fromkeys((*images, *own))), store, progress, uploads)
    config = supplied(layout_of(name, NAME), supply, (*needed, *of_pods), timeouts)
    versions = {ref.name.removeprefix(IMAGE_PREFIX): ref.version for ref in of_pods}
    disk = partial(_boot_disk, say)

    def prepare() -> None:
        config.prepare()
        disk()  # a build takes minutes

    return EmbeddedProvider(replace(config, prepare=prepare), pods_disk=disk, pods_versions=versions)


def _boot_disk(say: Say) -> BootDisk:
    """Return the disk image of the machine that runs pods, made first when it is not cached."""
    image = catalogue.load(packaged_dir() / MATRIX / "images.yml").find(PODS_IMAGE)
    built = ImageCache(recipes=packaged_dir() / TEMPLATES / "images").ensure(image, say)
    return BootDisk(built.file, built.sha256)


PROVIDER = EmbeddedDefinition()

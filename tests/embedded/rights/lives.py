"""A cell's life as a job leads it, in all that it asks of the infra cluster: room, machines, dumps, the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from harness import providers
from harness.cell.life import Life
from harness.cell.provision import Attempt
from harness.cell.site import Site
from harness.cell.steps import Steps
from harness.events import Recorder
from harness.kube import Cluster
from harness.kube.client import Infra
from harness.machines.kubevirt.manifests import GoldenImage
from harness.model import Cell, Phase, PlannedMachine
from harness.paths import project_dir
from harness.schedule.admission import Admission
from harness.spec import load_spec
from harness.spec.settings import Settings
from tests.embedded.rights.conftest import Ground

MACHINES = ("m-0", "m-1")
TIMEOUT_SCALE = 2.0


def cell(name: str = "rights") -> Cell:
    """Return a cell of two small machines, of which one is lost before its second phase."""
    planned = tuple(PlannedMachine(m, ("node",), 1, 384, 10, "debian-13") for m in MACHINES)
    phases = (Phase("deploy", machines=MACHINES), Phase("recover", machines=MACHINES[:1], lost=MACHINES[1:]))
    return Cell(name, {"topology": "t"}, "fresh", phases, planned, {})


def site_of(
    ground: Ground,
    cluster: Cluster,
    *,
    namespace: str | None,
    image: Callable[[str], GoldenImage],
    kubeconfig: Path | None = None,
) -> Site:
    """Return the infra cluster as somebody's cells see it.

    Args:
        kubeconfig: theirs, by which machines are then reached through the API; without it directly.
    """
    spec = load_spec(project_dir() / "matrix")
    return Site(
        cluster=cluster,
        spec=spec,
        timeouts=spec.timeouts.scaled(TIMEOUT_SCALE),
        mirror=ground.provider.mirror(),
        guest_vars={},
        image=image,
        storage_class=None,
        project=project_dir(),
        expiry_hours=1.0,
        namespace=namespace,
        access="direct" if kubeconfig is None else "portforward",
        infra=Infra(kubeconfig) if kubeconfig is not None else None,
    )


def images(ground: Ground) -> Callable[[str], GoldenImage]:
    """Return the source of disk images: the embedded infrastructure's mirror."""
    return lambda name: providers.golden_image(Settings(), name, ground.provider.mirror(), progress=lambda _: None)


def spoilt(ground: Ground) -> Callable[[str], GoldenImage]:
    """Return a source of disk images whose content is not what their checksum says."""
    good = images(ground)
    wrong = "0" * 64
    return lambda name: replace(good(name), name=f"{name}-{wrong[:12]}", checksum=f"sha256:{wrong}")


def life_of(site: Site, run: str, directory: Path, wanted: Cell | None = None) -> Life:
    """Return the life of a cell, not begun."""
    directory.mkdir(parents=True, exist_ok=True)
    lived = wanted or cell()
    attempt = Attempt(run, lived, 1, directory / lived.id, site.namespace)
    return Life(site, attempt, Steps(Recorder(directory), lived.id, 1))


def live(site: Site, run: str, directory: Path) -> Life:
    """Lead a life from the question for room to nothing left: taken over once, a machine lost, all logs collected."""
    life = life_of(site, run, directory)
    with Admission(site.cluster, run, namespace=site.namespace) as admission:
        admission.check_possible([life.cell])
        assert admission.try_admit(life.cell) is None
        life.provision()
        life_of(site, run, directory).provision()  # another process takes over: everything is there already
        admission.machines_up(life.cell.id)
        life._lose(life.cell.phases[1])
        life.collect()
        life.teardown()
        admission.gone(life.cell.id)
    return life

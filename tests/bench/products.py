"""Another product's deployment against ours: the same machines, versions and load, in turns, in the same bench.

What is compared is one run of the phase `deploy`, from the call of the product to its end. Both get machines that have
just come up, the same topology, disk image, Kubernetes and containerd, and the same network plugin.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness import providers
from harness.cell.site import Site
from harness.embedded.machines import cgroups
from harness.errors import BadInput, InfraError
from harness.infra.host.layout import load_record as load_record
from harness.machines.reach.ssh import close_connections, control_directory
from harness.model import Cell
from harness.paths import project_dir
from harness.plan.tiers import tier_cells
from harness.spec import load_spec
from harness.spec.project import Project
from tests.bench.figures import Ledger, stretch
from tests.bench.ground import Ground, life

EXAMPLES = Path(__file__).parents[2] / "examples"
# What is compared with ours: the example's folder, its tier, and the cell of it by values that ours does not decide.
COMPARED = {"kubespray": ("kubespray", {"etcd": "kubeadm"})}
OURS = "ours"


@dataclass(frozen=True)
class Contender:
    """A product with the cell that it deploys, and the infrastructure as this cell sees it."""

    name: str
    cell: Cell
    site: Site


def measure(ground: Ground, ledger: Ledger, runs: int) -> None:
    """Deploy in turns, first by our playbooks.

    Raises:
        BadInput: a product's sources cannot be had.
    """
    ours = _open(ground, OURS, Project(project_dir(), ground.spec, ground.settings), ground.cell)
    others = [_other(ground, name, *found) for name, found in COMPARED.items()]
    samples: dict[str, list[Mapping[str, float]]] = {each.name: [] for each in (ours, *others)}
    try:
        for number in range(1, runs + 1):
            for each in (ours, *others):
                ledger.stretch[f"{each.name} {number}"] = stretch()
                samples[each.name].append(_deploy(ground, each))
                said = ", ".join(f"{part} {seconds:.1f} s" for part, seconds in samples[each.name][-1].items())
                ground.say(f"products: {each.name}: {said}")
    finally:
        _enter(ledger, samples)


def _open(ground: Ground, name: str, project: Project, cell: Cell) -> Contender:
    return Contender(name, cell, providers.open_site(project, (cell,), progress=ground.say))


def _other(ground: Ground, example: str, tier: str, values: Mapping[str, str]) -> Contender:
    """Return a product of examples/ with the cell of its tier that is most like ours."""
    spec = load_spec(EXAMPLES / example / "matrix")
    wanted = {**ground.cell.values, **values}
    cells = [c for c in tier_cells(spec, tier, "embedded") if all(wanted.get(a) == v for a, v in c.values.items())]
    if not cells:
        raise BadInput(f"the tier {tier} of examples/{example} has no cell like {ground.cell.id}")
    return _open(ground, example, Project(EXAMPLES / example, spec, ground.settings), cells[0])


def _deploy(ground: Ground, contender: Contender) -> Mapping[str, float]:
    """Return the seconds of one deployment: on the clock, and of processors in the controller and in the guests."""
    alive = life(ground, contender.site, contender.cell)
    try:
        alive.provision()
        guests, controller, began = guest_seconds(ground), child_seconds(), time.monotonic()
        alive.apply(0)
        wall = time.monotonic() - began
        return {
            "wall": wall,
            "controller": child_seconds() - controller,
            "guests": guest_seconds(ground) - guests,
        }
    finally:
        alive.teardown()
        close_connections(control_directory(alive.attempt.run, contender.cell.id))


def child_seconds() -> float:
    """Return the processors' seconds of all processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def guest_seconds(ground: Ground) -> float:
    """Return the processors' seconds of the bench's machines, from their control groups."""
    made = load_record(ground.layout)
    if made is None:
        raise InfraError("the bench's infrastructure is not up")
    groups = [path for each in cgroups.hierarchies() for path in each.path.glob(f"vmx{made.index}-*") if path.is_dir()]
    return sum(map(_v1_seconds, groups)) or sum(map(_v2_seconds, groups))


def _v1_seconds(group: Path) -> float:
    file = group / "cpuacct.usage"  # ns
    return int(file.read_text(encoding="ascii")) / 1e9 if file.exists() else 0.0


def _v2_seconds(group: Path) -> float:
    file = group / "cpu.stat"  # lines `usage_usec 1234`
    lines = file.read_text(encoding="ascii").splitlines() if file.exists() else []
    return int(dict(line.split() for line in lines).get("usage_usec", 0)) / 1e6


def _enter(ledger: Ledger, samples: Mapping[str, list[Mapping[str, float]]]) -> None:
    notes = {
        "wall": "one run of the phase `deploy`",
        "controller": "processors' time of Ansible and what it starts on this host",
        "guests": "processors' time of both machines meanwhile",
    }
    for part, note in notes.items():
        for name, found in samples.items():
            ledger.add(f"deploy by {name}, {part}", "s", [each[part] for each in found], note=note)
        for name in (n for n in samples if n != OURS):
            pairs = zip(samples[name], samples[OURS], strict=False)
            ledger.add(f"- {name} over ours, {part}", "x", [a[part] / b[part] for a, b in pairs])

"""How long a cell takes that nobody has ever run: from its machines and phases alone, the same on every machine."""

from __future__ import annotations

from harness.model import Cell

# Seconds. From the project's own runs on the embedded infrastructure (docs/benchmarks.md, "cell cp1-w1": 102 s, of
# which deploy 34.5, checks 47, teardown 6.4, provision 4.2, everything else 9.8), whole upgrades (about 200 for one
# control plane, most of it kubeadm's wait for each static pod) and joins (22 for a control plane, 2 for a worker).
# Phases that had not been run when this was written are set beside the most similar one; history corrects them.
AROUND = 20.0  # provision, collect, teardown and pytest's own, of one machine
MACHINE_AROUND = 2.0  # each machine more
CHECKS = 40.0  # the suites after each phase, on one machine
MACHINE_CHECKS = 4.0
FIRST = {"deploy": 30.0, "upgrade": 190.0, "recover": 60.0, "scale-out": 25.0, "reconfigure": 40.0, "reset": 15.0}
FIRST |= {"reboot": 60.0, "power-loss": 60.0}  # restarts of machines
CONTROL_PLANE = {"deploy": 22.0, "upgrade": 190.0, "recover": 10.0, "scale-out": 10.0, "reconfigure": 30.0}
OTHER = {"deploy": 2.0, "upgrade": 10.0, "reconfigure": 5.0}
UNKNOWN = 30.0  # a phase of somebody else's product
CONTROL_PLANES, WORKERS = "control_plane", "node"


def estimate(cell: Cell) -> float:
    """Return how many seconds a cell occupies its machines, from the first namespace to the last one gone."""
    machines = len(cell.machines)
    total = AROUND + MACHINE_AROUND * (machines - 1)
    for phase in cell.phases:
        there = [m for m in cell.machines if not phase.machines or m.name in phase.machines]
        control_planes = sum(CONTROL_PLANES in m.groups for m in there)
        once = FIRST.get(phase.name, UNKNOWN)
        once += CONTROL_PLANE.get(phase.name, 0.0) * max(0, control_planes - 1)
        once += OTHER.get(phase.name, 0.0) * (len(there) - control_planes)
        total += once * (1 + len(phase.between))
        if phase.cluster:
            total += CHECKS + MACHINE_CHECKS * (len(there) - 1)
    return total

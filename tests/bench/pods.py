"""What pods cost on an embedded infrastructure: until they can run, until one runs, and the memory of their machine."""

from __future__ import annotations

import time

from harness.embedded.machines import cgroups
from harness.errors import InfraError
from harness.infra.host.layout import load_record
from harness.kube.client import Cluster
from harness.kube.objects import phase
from harness.kube.resources import POD
from harness.until import Deadline, NotYet, until
from tests.bench.figures import Ledger
from tests.bench.ground import Ground
from tests.bench.infra import command

PART_TARGET, MEMORY_TARGET, POD_TARGET = 12.0, 450.0, 4.0
POD_SECONDS = 120.0
IMAGE = "e2e-test-images/agnhost:2.63.0"
MIB = 2**20


def measure(ground: Ground, ledger: Ledger, runs: int) -> None:
    """Add pods to an infrastructure that is up, run two pods, take it down; and that several times."""
    added, first, second, memory = [list[float]() for _ in range(4)]
    try:
        for _ in range(runs):
            command(ground, "up")
            added.append(command(ground, "up", "--pods"))
            memory.append(working_set_mib(ground))
            first.append(_run(ground, "first"))
            second.append(_run(ground, "second"))
            command(ground, "down")
    finally:
        note = "`vmatrix infra up --pods` on one that is up, artifacts cached"
        ledger.add("pods, added", "s", added, target=PART_TARGET, note=note)
        note = "what its kubelet, containerd, kube-proxy and provisioner keep in memory"
        ledger.add("pods, memory", "MiB", memory, target=MEMORY_TARGET, note=note)
        ledger.add("pods, first pod runs", "s", first, note="created until Running; its image is pulled")
        ledger.add("pods, second pod runs", "s", second, target=POD_TARGET, note="the same; its image is there")


def _run(ground: Ground, name: str) -> float:
    """Run a pod, and return the seconds until it runs."""
    cluster = Cluster.from_kubeconfig(ground.layout.kubeconfig)
    container = {"name": "c", "image": IMAGE, "args": ["pause"]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}

    def runs() -> bool | NotYet:
        found = cluster.get(POD, name, "default")
        return phase(found) == "Running" or NotYet(f"it is {phase(found)}")

    began = time.monotonic()
    cluster.create(POD, POD.manifest(name, "default", labels={}, spec=spec))
    until(runs, deadline=Deadline.after(POD_SECONDS), what=f"pod {name} to run", interval=0.05)
    return time.monotonic() - began


def working_set_mib(ground: Ground) -> float:
    """Return what the machines of the infrastructure keep in memory, without files that could be read again.

    Raises:
        InfraError: it is not up, or has no machine.
    """
    made = load_record(ground.layout)
    index = made.index if made is not None else -1
    groups = [path for each in cgroups.hierarchies() for path in each.path.glob(f"vmx{index}-*")]
    for group in groups:
        usages = [group / name for name in ("memory.usage_in_bytes", "memory.current")]
        for usage in (file for file in usages if file.exists()):
            lines = (group / "memory.stat").read_text(encoding="ascii").splitlines()
            known = dict(line.split() for line in lines)
            inactive = int(known.get("total_inactive_file", known["inactive_file"]))
            return (int(usage.read_text(encoding="ascii")) - inactive) / MIB
    raise InfraError("the machine that runs pods has no control group")

"""The operator against the playbook alone: the same cluster, in turns; then what its manager costs beside that cluster.

The playbook is run by this process. The operator has its manager and its executor in pods of the infra cluster.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from harness.cell.life import Life
from harness.cell.product import chaos
from harness.cell.product.declared_wait import own_pods
from harness.cell.site import Site
from harness.errors import InfraError
from harness.kube.client import Json
from harness.kube.objects import dig, parse_time
from harness.kube.resources import DEPLOYMENT
from harness.model import Cell
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, CLUSTER_LABEL
from harness.plan.tiers import tier_cells
from harness.until import Deadline, NotYet, until
from tests.bench import operator
from tests.bench.figures import Ledger, stretch
from tests.bench.ground import TOPOLOGY, Ground, life, open_site
from tests.bench.infra import resident_mib
from tests.bench.profile import TaskClock

RATIO_TARGET, MEMORY_TARGET, REQUESTS_TARGET = 1.25, 120.0, 10.0
TIER, SCENARIO = "operator", "fresh"
GONE_SECONDS = 120.0  # until a manager that was told to end is gone, against hanging
STEPS = (
    "its controllers are installed",
    "machines are claimed, the Job is made",
    "its pod runs",
    "vmatrix and Ansible start",
    "the playbook",
    "state and log are kept",
    "Ready",
)


@dataclass(frozen=True)
class Idle:
    """What a manager costs whose cluster is Ready: its process in MiB, its requests and writes in a minute."""

    memory_mib: float
    requests: float
    writes: float


def measure(ground: Ground, ledger: Ledger, runs: int) -> None:
    """Deploy in turns, first by playbook, then through the operator."""
    cell = _cell(ground)
    site = open_site(ground, (ground.cell, cell))
    alone: list[float] = []
    parts: list[dict[str, float]] = []
    idle: list[Idle] = []
    try:
        for number in range(1, runs + 1):
            ledger.stretch[f"playbook alone {number}"] = stretch()
            alone.append(_by_playbook(ground, site))
            ledger.stretch[f"operator {number}"] = stretch()
            _through_operator(ground, site, cell, parts, idle)
            ground.say(f"deploy: playbook alone {alone[-1]:.1f} s, operator {sum(parts[-1].values()):.1f} s")
    finally:
        _enter(ledger, alone, parts, idle)


def _enter(ledger: Ledger, alone: list[float], parts: list[dict[str, float]], idle: list[Idle]) -> None:
    whole = [sum(part.values()) for part in parts]
    object_on = [seconds - part[STEPS[0]] for seconds, part in zip(whole, parts, strict=True)]
    ledger.add("deploy, playbook alone", "s", alone, note="cluster.yml from start to recap")
    ledger.add("deploy, operator", "s", object_on, note="ClusterDeployment made until it is Ready")
    ledger.add("- with its controllers", "s", whole, note="installed in the cell's namespace, which is done once")
    ratios = [mine / theirs for mine, theirs in zip(object_on, alone, strict=False)]
    ledger.add("deploy, operator / playbook alone", "x", ratios, target=RATIO_TARGET, note="in turns, same machines")
    ledger.share("deploy through the operator", parts)
    memory, requests = [one.memory_mib for one in idle], [one.requests for one in idle]
    ledger.add("manager beside a Ready cluster", "MiB", memory, target=MEMORY_TARGET, note="VmRSS, all controllers")
    ledger.add("- its requests a minute", "n", requests, target=REQUESTS_TARGET, note="watches aside")
    ledger.add("- of them writes", "n", [one.writes for one in idle], note="renewals of the Lease")


def _cell(ground: Ground) -> Cell:
    wanted = {"topology": TOPOLOGY, "scenario": SCENARIO}
    found = tier_cells(ground.spec, TIER, "embedded")
    return next(cell for cell in found if wanted.items() <= dict(cell.values).items())


def _by_playbook(ground: Ground, site: Site) -> float:
    alive = life(ground, site, ground.cell)
    try:
        alive.provision()
        clock = TaskClock()
        alive.apply(0)
        return time.monotonic() - clock.began
    finally:
        alive.teardown()


def _through_operator(ground: Ground, site: Site, cell: Cell, parts: list[dict[str, float]], idle: list[Idle]) -> None:
    alive = life(ground, site, cell)
    try:
        alive.provision()
        began = time.time()
        alive.apply(0)
        parts.append(_parts(alive, began, time.time()))
        idle.append(_idle(ground, alive))
    finally:
        alive.teardown()


def _parts(alive: Life, began: float, ended: float) -> dict[str, float]:
    """Return the seconds of each step, by what the API has of it; its own times are whole seconds."""
    cluster, namespace = alive.site.cluster, alive.attempt.namespace
    made = cluster.get(CLUSTER_DEPLOYMENT, "guest", namespace)
    (pod,) = [one for one in own_pods(cluster, namespace) if CLUSTER_LABEL in one["metadata"]["labels"]]
    ran = dig(pod, "status", "containerStatuses")[0]["state"]["terminated"]
    play, recap = _playbook(alive, pod)
    at = [
        began,
        _seconds(dig(made, "metadata", "creationTimestamp")),
        _seconds(pod["metadata"]["creationTimestamp"]),
        _seconds(ran["startedAt"]),
        play,
        recap,
        _seconds(ran["finishedAt"]),
        ended,
    ]
    return {step: max(0.0, end - start) for step, start, end in zip(STEPS, at[:-1], at[1:], strict=True)}


def _playbook(alive: Life, pod: Json) -> tuple[float, float]:
    """Return when an executor's first play began, and when the recap came."""
    path = f"/api/v1/namespaces/{alive.attempt.namespace}/pods/{pod['metadata']['name']}/log"
    lines = [line.decode().partition(" ") for line in alive.site.cluster.stream(path, {"timestamps": "true"})]
    play = next(at for at, _, text in lines if text.startswith("PLAY ["))
    return _seconds(play), _seconds(next(at for at, _, text in lines if text.startswith("PLAY RECAP")))


def _seconds(text: str) -> float:
    return parse_time(text).timestamp()


def _idle(ground: Ground, alive: Life) -> Idle:
    """Measure the manager's process; then put one of our own in its place, whose requests can be counted."""
    cluster, namespace = alive.site.cluster, alive.attempt.namespace
    (manager,) = _managers(alive)
    pid = chaos.first_process(chaos.id_of(manager))
    memory = resident_mib(pid) if pid is not None else None
    if memory is None:
        raise InfraError("the manager's process is not on this host")
    (deployment,) = cluster.list(DEPLOYMENT, namespace).items
    cluster.merge(DEPLOYMENT, deployment["metadata"]["name"], {"spec": {"replicas": 0}}, namespace)
    until(
        lambda: not _managers(alive) or NotYet("it is there"),
        deadline=Deadline.after(GONE_SECONDS),
        what="the manager to end",
    )
    return Idle(memory, *operator.idle(Path(ground.layout.kubeconfig), namespace))


def _managers(alive: Life) -> list[Json]:
    pods = own_pods(alive.site.cluster, alive.attempt.namespace)
    return [pod for pod in pods if CLUSTER_LABEL not in pod["metadata"]["labels"]]

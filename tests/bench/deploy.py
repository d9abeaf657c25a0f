"""The playbooks against bare commands: the same cluster on machines of the same kind, in turns, in the same bench."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.cell.site import Site
from harness.cell.variables import variables_of
from harness.model import Environment
from tests.bench import bare, rendered
from tests.bench.figures import Ledger, stretch
from tests.bench.ground import Ground, life, open_site

RATIO_TARGET = 2.0
ANSIBLE_START = "ansible-playbook starts"
# The roles that only prepare machines; what the others take, waits included, is set against kubeadm and kubectl alone.
PREPARING = frozenset({ANSIBLE_START, "bootstrap_os", "preinstall", "container_runtime", "kubernetes_binaries"})


@dataclass
class TaskClock:
    """When each task of a playbook began, on the monotonic clock."""

    began: float = field(default_factory=time.monotonic)
    tasks: list[tuple[str, float]] = field(default_factory=list)

    def on_task(self, name: str) -> None:
        """Note that a task begins."""
        self.tasks.append((name, time.monotonic()))

    def seconds(self, ended: float) -> dict[str, float]:
        """Return each task's seconds by "role : task", what came before the first under a name of its own."""
        starts = [(ANSIBLE_START, self.began), *self.tasks]
        ends = [at for _, at in starts[1:]] + [ended]
        spent: dict[str, float] = {}
        for (name, at), end in zip(starts, ends, strict=True):
            spent[name] = spent.get(name, 0.0) + end - at
        return spent


@dataclass(frozen=True)
class Deployed:
    """What a deployment by playbook leaves: its tasks' seconds, its machines, their files, its variables."""

    tasks: Mapping[str, float]
    environment: Environment
    files: Mapping[str, rendered.Archive]
    variables: Mapping[str, Any]


def measure(ground: Ground, ledger: Ledger, runs: int) -> None:
    """Deploy in turns, first by playbook, then by hand."""
    site = open_site(ground)
    books: list[dict[str, float]] = []
    bares: list[dict[str, float]] = []
    inits: list[dict[str, float]] = []
    joins: list[dict[str, float]] = []
    try:
        for number in range(1, runs + 1):
            ledger.stretch[f"playbook {number}"] = stretch()
            deployed = _by_playbook(ground, site)
            ledger.stretch[f"bare {number}"] = stretch()
            by_hand = _by_hand(ground, site, deployed)
            books.append(dict(deployed.tasks))
            bares.append(by_hand.steps)
            inits.append(by_hand.init)
            joins.append(by_hand.join)
            ground.say(f"deploy: playbook {sum(books[-1].values()):.1f} s, bare {sum(bares[-1].values()):.1f} s")
    finally:
        _enter(ledger, books, bares)
        ledger.share("kubeadm init (bare), by what it printed last", inits)
        ledger.share("kubeadm join (bare), by what it printed last", joins)


def _enter(ledger: Ledger, books: Sequence[Mapping[str, float]], bares: Sequence[Mapping[str, float]]) -> None:
    whole = [sum(b.values()) for b in books]
    cluster = [sum(s for task, s in b.items() if role_of(task) not in PREPARING) for b in books]
    bare_whole = [sum(b.values()) for b in bares]
    bare_cluster = [sum(s for step, s in b.items() if step not in bare.PREPARE) for b in bares]
    ledger.add("deploy, playbook", "s", whole, note="cluster.yml from start to recap")
    ledger.add(
        "- cluster only, playbook",
        "s",
        cluster,
        note="init, hand-out, flannel, join, waits; ahead of it images are pulled",
    )
    ledger.add("deploy, bare", "s", bare_whole, note="curl, files, containerd, then the line below")
    ledger.add(
        "- cluster only, bare", "s", bare_cluster, note="kubeadm init, kubectl apply, kubeadm join, the same waits"
    )
    for name, above, below, note in (
        ("deploy, all of both", whole, bare_whole, "fetching and preparing included in both"),
        ("deploy, cluster of both", cluster, bare_cluster, "init + apply + join + waits in both"),
        ("deploy, all / bare cluster", whole, bare_cluster, "strictest: the bare side has its machines prepared"),
    ):
        ratios = [a / b for a, b in zip(above, below, strict=True)]
        ledger.add(name, "x", ratios, target=RATIO_TARGET, note=note)
    ledger.share("deploy by playbook, by role", [by_role(b) for b in books])
    ledger.share("deploy by playbook, by task", books)
    ledger.share("deploy by bare commands", bares)


def _by_playbook(ground: Ground, site: Site) -> Deployed:
    alive = life(ground, site, ground.cell)
    try:
        environment = alive.provision()
        clock = TaskClock()
        alive.on_task = clock.on_task
        alive.apply(0)
        tasks = clock.seconds(time.monotonic())
        variables = variables_of(site, environment, alive.cell.phases[0])
        return Deployed(tasks, environment, rendered.read(environment), variables)
    finally:
        alive.teardown()


def _by_hand(ground: Ground, site: Site, deployed: Deployed) -> bare.Made:
    alive = life(ground, site, ground.cell)
    try:
        environment = alive.provision()
        files = rendered.moved(deployed.files, deployed.environment, environment)
        return bare.deploy(environment, files, deployed.variables, seconds=site.timeouts.phase_deploy)
    finally:
        alive.teardown()


def role_of(task: str) -> str:
    """Return the role of "role : task"."""
    return task.partition(" : ")[0]


def by_role(tasks: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds of each role."""
    spent: dict[str, float] = {}
    for task, seconds in tasks.items():
        spent[role_of(task)] = spent.get(role_of(task), 0.0) + seconds
    return spent

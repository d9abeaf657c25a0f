"""The playbooks against bare commands: the same cluster on machines of the same kind, in turns, in the same bench."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.cell.site import Site
from harness.cell.variables import variables_of
from harness.model import Environment
from tests.bench import bare, profile, rendered
from tests.bench.figures import Ledger, stretch
from tests.bench.ground import Ground, life, open_site
from tests.bench.profile import ANSIBLE_START, TaskClock, TimedTask

RATIO_TARGET = 2.0
# The roles that only prepare machines; what the others take, waits included, is set against kubeadm and kubectl alone.
PREPARING = frozenset({ANSIBLE_START, "bootstrap_os", "preinstall", "container_runtime", "kubernetes_binaries"})


@dataclass(frozen=True)
class Deployed:
    """What a deployment by playbook leaves: its tasks, its machines, their files, its variables."""

    tasks: Sequence[TimedTask]
    environment: Environment
    files: Mapping[str, rendered.Archive]
    variables: Mapping[str, Any]


def measure(ground: Ground, ledger: Ledger, runs: int) -> None:
    """Deploy in turns, first by playbook, then by hand."""
    site = open_site(ground)
    books: list[Sequence[TimedTask]] = []
    bares: list[dict[str, float]] = []
    inits: list[dict[str, float]] = []
    joins: list[dict[str, float]] = []
    try:
        for number in range(1, runs + 1):
            ledger.stretch[f"playbook {number}"] = stretch()
            deployed = _by_playbook(ground, site)
            ledger.stretch[f"bare {number}"] = stretch()
            by_hand = _by_hand(ground, site, deployed)
            books.append(deployed.tasks)
            bares.append(by_hand.steps)
            inits.append(by_hand.init)
            joins.append(by_hand.join)
            ground.say(f"deploy: playbook {_whole(books[-1]):.1f} s, bare {sum(bares[-1].values()):.1f} s")
    finally:
        _enter(ledger, books, bares)
        ledger.share("kubeadm init (bare), by what it printed last", inits)
        ledger.share("kubeadm join (bare), by what it printed last", joins)


def _whole(book: Sequence[TimedTask]) -> float:
    return sum(task.seconds for task in book)


def _enter(ledger: Ledger, books: Sequence[Sequence[TimedTask]], bares: Sequence[Mapping[str, float]]) -> None:
    whole = [_whole(b) for b in books]
    roles = [profile.by_role(b) for b in books]
    cluster = [sum(s for role, s in found.items() if role not in PREPARING) for found in roles]
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
    ledger.share("deploy by playbook, by role", profile.longest_first(roles))
    ledger.share(
        "deploy by playbook, by play and role", profile.longest_first([profile.by_play_and_role(b) for b in books])
    )
    ledger.share("deploy by playbook, by task", profile.longest_first([profile.by_task(b) for b in books]))
    ledger.profiles["deploy"] = profile.as_json(books)
    ledger.share("deploy by bare commands", bares)


def _by_playbook(ground: Ground, site: Site) -> Deployed:
    alive = life(ground, site, ground.cell)
    try:
        environment = alive.provision()
        clock = TaskClock()
        alive.on_task = clock.on_task
        alive.apply(0)
        ended = time.monotonic()
        log = alive.attempt.files.log(alive.cell.stage(0)).read_text(encoding="utf-8")
        tasks = clock.profile(log, ended)
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

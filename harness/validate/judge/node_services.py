"""What must run on every machine of a guest, and where it must not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.validate.facts.expected import CONTROL_PLANE_PROGRAMS, ExpectedGuest
from harness.validate.facts.node import SERVICES, NodeFacts
from harness.validate.judge.mismatch import Mismatch, differs, of_each, on_every, same_set

Facts = Mapping[str, NodeFacts]
SYSTEM_STATES = frozenset({"running", "degraded", "starting"})


@of_each("nodes")
def stopped_services(name: str, seen: NodeFacts, expected: ExpectedGuest) -> Iterator[Mismatch]:
    """Return the services that do not run now or would not run after a reboot."""
    for service in SERVICES:
        unit = seen.units.get(service)
        states = (unit.active, unit.sub, unit.enabled) if unit else ("absent",)
        yield from differs(f"{name} {service}", "state", ("active", "running", "enabled"), states)


def failed_units(facts: Facts, expected: ExpectedGuest, allowed: Mapping[str, str]) -> list[Mismatch]:
    """Return the units that systemd reports as failed, except the allowed ones (unit -> why it may fail)."""

    def judge(name: str, seen: NodeFacts) -> Iterator[Mismatch]:
        if seen.system_state not in SYSTEM_STATES:
            yield Mismatch(name, "systemd 'running'", repr(seen.system_state))
        yield from differs(name, "failed units", [], sorted(set(seen.failed_units) - set(allowed)))

    return on_every(expected.machines, facts, judge)


@of_each("machines")
def misplaced_processes(name: str, seen: NodeFacts, expected: ExpectedGuest) -> Iterator[Mismatch]:
    """Return where the control plane or etcd does not run, runs twice, or runs on a machine of another group."""
    for program in (*CONTROL_PLANE_PROGRAMS, "etcd"):
        group = expected.etcd if program == "etcd" else expected.control_plane
        count = len(seen.running(program))
        yield from differs(f"{name} {program}", "running processes", int(name in group), count)


@of_each("nodes")
def wrong_manifests(name: str, seen: NodeFacts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return where the static pods' manifests are not exactly those of the machine's role."""
    programs = (*CONTROL_PLANE_PROGRAMS, *(["etcd"] if expected.stacked_etcd else []))
    of_control_plane = {f"{program}.yaml" for program in programs}
    wanted = of_control_plane if name in expected.control_plane else set()
    return same_set(f"{name} /etc/kubernetes/manifests", "static pods", wanted, seen.manifests)


@of_each("nodes")
def unhealthy_agents(name: str, seen: NodeFacts, expected: ExpectedGuest) -> Iterator[Mismatch]:
    """Return kubelets and kube-proxies that do not report themselves healthy."""
    for agent in ("kubelet", "kube-proxy"):
        answer = seen.endpoints[agent]
        if answer.status != 200:
            yield Mismatch(f"{name} {agent} /healthz", "200", f"{answer.status} {answer.body[:200]}")

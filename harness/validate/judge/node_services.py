"""What must run on every machine of a guest, and where it must not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from harness.validate.expected import CONTROL_PLANE_PROGRAMS, LEFT_OUT, PROXY_MODES, ExpectedGuest
from harness.validate.facts.node import NodeFacts, Process
from harness.validate.findings import Mismatch, differs, on_every, together, unjudged
from harness.validate.layout import absent, etcd_is_used, running_proxies, runtime_of

Facts = Mapping[str, NodeFacts]
JOURNAL = "systemd-journald.service"  # writes the logs of all others
SYSTEM_STATES = frozenset({"running", "degraded", "starting"})
NOWHERE = "no process of that name runs, and product.yml does not say how they run"
UNNAMED = "no process of that name shows one, and product.yml does not say what runs it"


def stopped_services(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return the services that do not run now or would not run after a reboot."""
    runtime = runtime_of(facts, expected)
    units = {"kubelet": expected.leaves.kubelet.unit, runtime or "the container runtime": expected.leaves.runtime_unit}

    def judge(program: str, said: str | None, name: str, seen: NodeFacts) -> Iterator[Mismatch]:
        service = said or next((process.unit for process in seen.running(program)), "")
        unit = seen.units.get(service)
        states = (unit.active, unit.sub, unit.enabled) if unit else ("absent",)
        yield from differs(f"{name} {service or program}", "state", ("active", "running", "enabled"), states)

    local, etcd = expected.leaves.local_api, expected.leaves.etcd.unit
    parts = [
        [unjudged(f"the unit of {program}", UNNAMED)]
        if said is None and (program == "the container runtime" or _without_unit(facts, program))
        else on_every(expected.nodes, facts, partial(judge, program, said))
        for program, said in units.items()
    ]
    proxied = expected.nodes if local.group == "node" else expected.workers
    if local.unit is not None and proxied:
        parts.append(on_every(proxied, facts, partial(judge, "the proxy before the API", local.unit)))
    if not expected.stacked_etcd and not (etcd is None and _without_unit(facts, "etcd")):
        parts.append(on_every(expected.etcd, facts, partial(judge, "etcd", etcd)))
    return together(*parts)


def _without_unit(facts: Facts, program: str) -> bool:
    """Tell whether no machine shows which unit runs a program; false when no machine was looked at."""
    return bool(facts) and not any(process.unit for seen in facts.values() for process in seen.running(program))


def failed_units(facts: Facts, expected: ExpectedGuest, allowed: Mapping[str, str]) -> list[Mismatch]:
    """Return the units that systemd reports as failed, and a journal that is stopped.

    Args:
        allowed: units that may fail -> why.
    """

    def judge(name: str, seen: NodeFacts) -> Iterator[Mismatch]:
        if seen.system_state not in SYSTEM_STATES:
            yield Mismatch(name, "systemd 'running'", repr(seen.system_state))
        yield from differs(name, "failed units", [], sorted(set(seen.failed_units) - set(allowed)))
        journal = seen.units.get(JOURNAL)
        yield from differs(f"{name} {JOURNAL}", "state", "active", journal.active if journal is not None else "absent")

    return on_every(expected.machines, facts, judge)


def misplaced_processes(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return where the control plane or etcd does not run, runs twice, runs otherwise, or on a machine of no group."""
    leaves = expected.leaves

    def judge(program: str, name: str, seen: NodeFacts) -> Iterator[Mismatch]:
        group = expected.etcd if program == "etcd" else expected.control_plane
        running = seen.running(program)
        yield from differs(f"{name} {program}", "running processes", int(name in group), len(running))
        static = expected.static(program) if name in expected.control_plane else False
        for process in running if name in group and expected.static(program) is not None else ():
            yield from differs(f"{name} {program}", "runs as", _words(static), _runs(process))

    parts: list[list[Mismatch]] = []
    for programs, said in ((CONTROL_PLANE_PROGRAMS, leaves.control_plane.runs_as), (("etcd",), leaves.etcd.runs_as)):
        unnamed = said is None and all(absent(facts, program) for program in programs)
        if unnamed and not (programs == ("etcd",) and etcd_is_used(facts, expected)):
            parts.append([unjudged(f"where {', '.join(programs)} run", NOWHERE)])
        else:
            parts += [on_every(expected.machines, facts, partial(judge, program)) for program in programs]
    return together(*parts)


def _words(static: bool | None) -> str:
    return "a static pod" if static else "a unit"


def _runs(process: Process) -> str:
    return _words(process.in_pod) if process.in_pod or process.unit else f"neither, in {process.cgroup!r}"


def unhealthy_agents(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return kubelets and kube-proxies that do not report themselves healthy."""

    def judge(agent: str, name: str, seen: NodeFacts) -> Iterator[Mismatch]:
        answer = seen.endpoints[agent]
        if answer.status != 200:
            yield Mismatch(f"{name} {agent} /healthz", "200", f"{answer.status} {answer.body[:200]}")

    proxies = on_every(expected.nodes, facts, partial(judge, "kube-proxy"))
    if expected.kube_proxy_mode == LEFT_OUT:
        proxies = running_proxies(facts, expected)
    elif expected.kube_proxy_mode not in PROXY_MODES and absent(facts, "kube-proxy"):
        proxies = [unjudged("kube-proxy's health", f"none runs, in mode {expected.kube_proxy_mode!r}")]
    return together(on_every(expected.nodes, facts, partial(judge, "kubelet")), proxies)

"""Settings that a scenario changes, read from what runs: flags of processes, answers of programs, files they read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import HarnessBug
from harness.model import Cell
from harness.validate.facts.expected import ExpectedGuest
from harness.validate.judge.mismatch import Mismatch, differs
from harness.validate.phases.observation import Observation, cache_seconds

# Variables of scenarios that other checks see: by name, where.
SEEN_ELSEWHERE: Mapping[str, str] = {
    "cluster_metrics_server_version": "suite cluster",
    "cluster_local_path_provisioner_version": "suite cluster",
}


@dataclass(frozen=True)
class RequestedSetting:
    """One setting that was asked for: the playbooks' variable, the name within it ("" when it has none), the value."""

    variable: str
    name: str
    value: Any


@dataclass(frozen=True)
class SettingPlace:
    """Where a setting is in force, what was seen there, and what it is held to (the value as it is written there).

    steady: whether the same is seen at every moment, so that it can tell what the setting was before.
    """

    where: str
    seen: Any
    wanted: Any
    steady: bool = True


Look = Callable[[Observation, RequestedSetting], Iterator[SettingPlace]]


def asked_in(cell: Cell, index: int) -> tuple[RequestedSetting, ...]:
    """Return the settings that hold during a phase by what its scenario says, this phase or one before.

    Raises:
        HarnessBug: nothing is known of a variable of the scenario, so nobody would see whether it did anything.
    """
    own = {name: value for name, value in cell.phases[index].vars.items() if cell.vars.get(name) != value}
    axes = {name for name in own if name in cell.vars and name not in LOOKS}  # another version, by a phase's `values`
    unknown = sorted(own.keys() - axes - LOOKS.keys() - SEEN_ELSEWHERE.keys())
    if unknown:
        raise HarnessBug(
            f"no check sees what becomes of {', '.join(unknown)}, which scenario {cell.scenario} sets",
            hint="say in harness/validate/phases/settings.py where a running cluster shows it",
        )
    return tuple(
        RequestedSetting(variable, *leaf) for variable in own if variable in LOOKS for leaf in leaves(own[variable])
    )


def asked_first_in(cell: Cell, index: int) -> tuple[RequestedSetting, ...]:
    """Return the settings that a phase is the first to ask for."""
    before = asked_in(cell, index - 1) if index else ()
    return tuple(one for one in asked_in(cell, index) if one not in before)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values inside of mappings with their paths, joined by dots; a value that is none with an empty path."""
    if not isinstance(value, Mapping):
        yield path, value
        return
    for key, inner in value.items():
        yield from leaves(inner, f"{path}.{key}" if path else str(key))


def not_in_force(asked: tuple[RequestedSetting, ...], seen: Observation) -> list[Mismatch]:
    """Return where a setting is not what was asked for; a setting that is seen nowhere is a finding too."""
    found: list[Mismatch] = []
    for one in asked:
        places = list(LOOKS[one.variable](seen, one))
        if not places:
            found.append(Mismatch(one.variable, f"a place where {one.name or 'it'} is in force", "none"))
        for place in places:
            found += differs(place.where, "value", place.wanted, place.seen)
    return found


def not_changed(asked: tuple[RequestedSetting, ...], before: Observation | None) -> list[Mismatch]:
    """Return where a setting was before the phase what it was to become in it: then the phase has proved nothing."""
    if before is None:
        return [Mismatch("before the phase", "a record of the settings", "none")]
    found: list[Mismatch] = []
    for one in asked:
        places = list(LOOKS[one.variable](before, one))
        if not places:
            found.append(Mismatch(one.variable, f"a place where {one.name or 'it'} was in force before", "none"))
        found += [
            Mismatch(f"{place.where}, before the phase", f"not yet {place.wanted!r}", repr(place.seen))
            for place in places
            if place.steady and place.seen == place.wanted
        ]
    return found


def _flags(program: str, machines: Callable[[ExpectedGuest], tuple[str, ...]]) -> Look:
    """See a flag of each running process of a program, on each machine that must have one."""

    def look(seen: Observation, one: RequestedSetting) -> Iterator[SettingPlace]:
        for machine in machines(seen.expected):
            facts = seen.facts.get(machine)
            values = {process.flag(one.name) for process in facts.running(program)} if facts is not None else {None}
            value = values.pop() if len(values) == 1 else sorted(map(str, values))
            yield SettingPlace(f"{machine}: running {program} --{one.name}", value, _as_flag(one.value))

    return look


def _as_flag(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _kubelet(seen: Observation, one: RequestedSetting) -> Iterator[SettingPlace]:
    for node in seen.expected.nodes:
        yield SettingPlace(
            f"{node}: running kubelet's {one.name}", at(seen.kubelets.get(node, {}), one.name), one.value
        )


def _kube_proxy(seen: Observation, one: RequestedSetting) -> Iterator[SettingPlace]:
    for node in seen.expected.nodes:
        running = seen.running[node].kube_proxy if node in seen.running else {}
        yield SettingPlace(f"{node}: running kube-proxy's {one.name}", at(running, one.name), one.value)


def _containerd(seen: Observation, one: RequestedSetting) -> Iterator[SettingPlace]:
    """See what containerd makes of its files, and that none of them is newer than the process that has read them."""
    for node in seen.expected.nodes:
        obeyed = seen.running[node].containerd if node in seen.running else None
        tables = obeyed.content.get("plugins", {}) if obeyed is not None else {}
        values = [table[one.name] for name, table in tables.items() if ".cri" in name and one.name in table]
        value = values[0] if len(values) == 1 else values
        if obeyed is not None and not obeyed.fresh:
            value = f"{value!r} in files that are newer than the running containerd"
        yield SettingPlace(f"{node}: running containerd's {one.name}", value, one.value)


def _dns_cache(seen: Observation, one: RequestedSetting) -> Iterator[SettingPlace]:
    """See CoreDNS's configuration; and by how long it lets its answers live that every server obeys it."""
    configured = cache_seconds(seen.coredns.get("Corefile", ""))
    yield SettingPlace("CoreDNS: `cache` in its Corefile", configured, str(one.value))
    given: dict[str, int] = {}
    for running in seen.running.values():
        for server, seconds in running.lifetimes.items():
            given[server] = max(given.get(server, 0), seconds)
    for server, seconds in given.items():
        obeys = 0 < seconds <= int(one.value)
        where = f"CoreDNS at {server}: longest lifetime of an answer"
        yield SettingPlace(where, one.value if obeys else seconds, one.value, steady=False)
    if not given:
        yield SettingPlace("CoreDNS: servers that answer", 0, "at least one")


def at(settings: Mapping[str, Any], path: str) -> Any:
    """Return what lies at a path of keys, joined by dots; None where there is nothing."""
    value: Any = settings
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


LOOKS: Mapping[str, Look] = {
    "cluster_apiserver_extra_args": _flags("kube-apiserver", lambda expected: expected.control_plane),
    "cluster_controller_manager_extra_args": _flags("kube-controller-manager", lambda expected: expected.control_plane),
    "cluster_scheduler_extra_args": _flags("kube-scheduler", lambda expected: expected.control_plane),
    "cluster_etcd_extra_args": _flags("etcd", lambda expected: expected.etcd),
    "cluster_kubelet_config": _kubelet,
    "cluster_kube_proxy_config": _kube_proxy,
    "cluster_containerd_config": _containerd,
    "cluster_coredns_cache_seconds": _dns_cache,
}

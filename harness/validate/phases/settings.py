"""Settings that a scenario changes: where each is in force in a running cluster, and that it was another before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.model import Cell
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import value_at
from harness.validate.findings import Mismatch, differs, unjudged
from harness.validate.phases.observation import Observation, cache_seconds
from harness.validate.topics.runtime import settings_of


@dataclass(frozen=True)
class RequestedSetting:
    """A setting of a scenario: the playbooks' variable, the name within it ("" when it has none), the value."""

    variable: str
    name: str
    value: Any


@dataclass(frozen=True)
class SettingPlace:
    """A place where a setting is in force, what was seen there, and what must be seen, in the same notation.

    steady: whether the place always shows the same, so that it can prove what the setting was before.
    """

    where: str
    seen: Any
    wanted: Any
    steady: bool = True


Look = Callable[[Observation, RequestedSetting], Iterator[SettingPlace]]


def _flags(program: str, machines: Callable[[ExpectedGuest], tuple[str, ...]]) -> Look:
    """Look at a flag of each running process of a program, on each machine that must run it."""

    def look(observation: Observation, setting: RequestedSetting) -> Iterator[SettingPlace]:
        for machine in machines(observation.expected):
            facts = observation.facts.get(machine)
            values = {process.flag(setting.name) for process in facts.running(program)} if facts is not None else {None}
            value = values.pop() if len(values) == 1 else sorted(map(str, values))
            yield SettingPlace(f"{machine}: running {program} --{setting.name}", value, _as_flag(setting.value))

    return look


def _as_flag(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _kubelet(observation: Observation, setting: RequestedSetting) -> Iterator[SettingPlace]:
    for node in observation.expected.nodes:
        yield SettingPlace(
            f"{node}: running kubelet's {setting.name}",
            value_at(observation.kubelets.get(node, {}), setting.name),
            setting.value,
        )


def _kube_proxy(observation: Observation, setting: RequestedSetting) -> Iterator[SettingPlace]:
    for node in observation.expected.nodes:
        running = observation.running[node].kube_proxy if node in observation.running else {}
        yield SettingPlace(
            f"{node}: running kube-proxy's {setting.name}", value_at(running, setting.name), setting.value
        )


def _containerd(observation: Observation, setting: RequestedSetting) -> Iterator[SettingPlace]:
    """Look at the configuration that containerd makes of its files, none of which may be newer than its process."""
    for node in observation.expected.nodes:
        obeyed = observation.running[node].containerd if node in observation.running else None
        tables = obeyed.content.get("plugins", {}) if obeyed is not None else {}
        values = [table[setting.name] for name, table in tables.items() if ".cri" in name and setting.name in table]
        value = values[0] if len(values) == 1 else values
        if obeyed is not None and not obeyed.fresh:
            value = f"{value!r} in files that are newer than the running containerd"
        yield SettingPlace(f"{node}: running containerd's {setting.name}", value, setting.value)


def _crio(observation: Observation, setting: RequestedSetting) -> Iterator[SettingPlace]:
    """Look at the configuration that CRI-O runs with."""
    for node in observation.expected.nodes:
        obeyed = observation.running[node].crio if node in observation.running else None
        values = dict(settings_of(obeyed.content)).get(setting.name, []) if obeyed is not None else []
        yield SettingPlace(
            f"{node}: running CRI-O's {setting.name}", values[0] if len(values) == 1 else values, setting.value
        )


def _dns_cache(observation: Observation, setting: RequestedSetting) -> Iterator[SettingPlace]:
    """Look at CoreDNS's configuration, and at the TTL of its answers, by which every server must obey it."""
    configured = cache_seconds(observation.coredns.get("Corefile", ""))
    yield SettingPlace("CoreDNS: `cache` in its Corefile", configured, str(setting.value))
    ttls: dict[str, int] = {}
    for running in observation.running.values():
        for server, seconds in running.lifetimes.items():
            ttls[server] = max(ttls.get(server, 0), seconds)
    for server, seconds in ttls.items():
        obeys = 0 < seconds <= int(setting.value)
        where = f"CoreDNS at {server}: longest TTL of an answer"
        yield SettingPlace(where, setting.value if obeys else seconds, setting.value, steady=False)
    if not ttls:
        yield SettingPlace("CoreDNS: servers that answer", 0, "at least one")


LOOKS: Mapping[str, Look] = {
    "cluster_apiserver_extra_args": _flags("kube-apiserver", lambda expected: expected.control_plane),
    "cluster_controller_manager_extra_args": _flags("kube-controller-manager", lambda expected: expected.control_plane),
    "cluster_scheduler_extra_args": _flags("kube-scheduler", lambda expected: expected.control_plane),
    "cluster_etcd_extra_args": _flags("etcd", lambda expected: expected.etcd),
    "cluster_kubelet_config": _kubelet,
    "cluster_kube_proxy_config": _kube_proxy,
    "cluster_containerd_config": _containerd,
    "cluster_crio_config": _crio,
    "cluster_coredns_cache_seconds": _dns_cache,
}
# Settings of a container runtime, and the runtime without which they are in force nowhere.
OF_RUNTIME: Mapping[str, str] = {"cluster_containerd_config": "containerd", "cluster_crio_config": "crio"}
RUNTIME = "cluster_container_runtime"
# Variables of scenarios that other checks look at, and where those are.
SEEN_ELSEWHERE: Mapping[str, str] = {
    "cluster_ca_rotation": "suite phases, after rotate-ca",
    "cluster_upgrade_workers": "suite nodes, versions of kubelets",
    "cluster_emulate_previous_minor": "suite nodes, API servers, flags and versions of kubelets",
    "cluster_certificates_renew_before_days": "suite phases, after renew",
    "cluster_etcd_restore_confirmation": "suite phases, after clone",
    "cluster_etcd_defragment_mebibytes": "suite phases, after defragment",
    "cluster_etcd_defragment_percent": "suite phases, after defragment",
    "cluster_metrics_server_version": "suite cluster",
    "cluster_local_path_provisioner_version": "suite cluster",
}


def requested_in(cell: Cell, index: int) -> tuple[RequestedSetting, ...]:
    """Return the settings that the scenario requests in a phase or in an earlier one, as far as checks look at them.

    A scenario has settings of each container runtime; those of another one than the cell's are in force nowhere.
    """
    own = _of_scenario(cell, index)
    runtime = cell.vars.get(RUNTIME)
    looked_at = [name for name in own if name in LOOKS and runtime in (None, OF_RUNTIME.get(name, runtime))]
    return tuple(RequestedSetting(variable, *leaf) for variable in looked_at for leaf in leaves(own[variable]))


def not_looked_at(cell: Cell, index: int) -> list[Mismatch]:
    """Return the variables of the scenario that no check looks at: one in the product's own words, mostly."""
    own = _of_scenario(cell, index)
    axes = {name for name in own if name in cell.vars and name not in LOOKS}  # another version, by a phase's `values`
    unknown = sorted(own.keys() - axes - LOOKS.keys() - SEEN_ELSEWHERE.keys())
    why = f"no check knows where a running cluster shows it; scenario {cell.scenario} sets it"
    return [unjudged(name, why) for name in unknown]


def _of_scenario(cell: Cell, index: int) -> dict[str, Any]:
    return {name: value for name, value in cell.phases[index].vars.items() if cell.vars.get(name) != value}


def first_requested_in(cell: Cell, index: int) -> tuple[RequestedSetting, ...]:
    """Return the settings that a phase is the first to request."""
    before = requested_in(cell, index - 1) if index else ()
    return tuple(setting for setting in requested_in(cell, index) if setting not in before)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values inside mappings with their paths, joined by dots; any other value with an empty path."""
    if not isinstance(value, Mapping):
        yield path, value
        return
    for key, inner in value.items():
        yield from leaves(inner, f"{path}.{key}" if path else str(key))


def not_in_force(requested: tuple[RequestedSetting, ...], observation: Observation) -> list[Mismatch]:
    """Return where a setting is not as requested; a setting that is in force nowhere is a mismatch too."""
    mismatches: list[Mismatch] = []
    for setting in requested:
        places = list(LOOKS[setting.variable](observation, setting))
        if not places:
            mismatches.append(Mismatch(setting.variable, f"a place where {setting.name or 'it'} is in force", "none"))
        for place in places:
            mismatches += differs(place.where, "value", place.wanted, place.seen)
    return mismatches


def not_changed(requested: tuple[RequestedSetting, ...], before: Observation) -> list[Mismatch]:
    """Return where a setting already had its new value before the phase: then the phase has proved nothing."""
    mismatches: list[Mismatch] = []
    for setting in requested:
        places = list(LOOKS[setting.variable](before, setting))
        if not places:
            mismatches.append(
                Mismatch(setting.variable, f"a place where {setting.name or 'it'} was in force before", "none")
            )
        mismatches += [
            Mismatch(f"{place.where}, before the phase", f"not yet {place.wanted!r}", repr(place.seen))
            for place in places
            if place.steady and place.seen == place.wanted
        ]
    return mismatches

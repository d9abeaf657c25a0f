"""Where the settings that a scenario changes are in force in a running cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.cluster import value_at
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
            f"{node}: running kubelet's {one.name}", value_at(seen.kubelets.get(node, {}), one.name), one.value
        )


def _kube_proxy(seen: Observation, one: RequestedSetting) -> Iterator[SettingPlace]:
    for node in seen.expected.nodes:
        running = seen.running[node].kube_proxy if node in seen.running else {}
        yield SettingPlace(f"{node}: running kube-proxy's {one.name}", value_at(running, one.name), one.value)


def _containerd(seen: Observation, one: RequestedSetting) -> Iterator[SettingPlace]:
    """Look at the configuration that containerd makes of its files, none of which may be newer than its process."""
    for node in seen.expected.nodes:
        obeyed = seen.running[node].containerd if node in seen.running else None
        tables = obeyed.content.get("plugins", {}) if obeyed is not None else {}
        values = [table[one.name] for name, table in tables.items() if ".cri" in name and one.name in table]
        value = values[0] if len(values) == 1 else values
        if obeyed is not None and not obeyed.fresh:
            value = f"{value!r} in files that are newer than the running containerd"
        yield SettingPlace(f"{node}: running containerd's {one.name}", value, one.value)


def _crio(seen: Observation, one: RequestedSetting) -> Iterator[SettingPlace]:
    """Look at the configuration that CRI-O runs with."""
    for node in seen.expected.nodes:
        obeyed = seen.running[node].crio if node in seen.running else None
        values = dict(settings_of(obeyed.content)).get(one.name, []) if obeyed is not None else []
        yield SettingPlace(f"{node}: running CRI-O's {one.name}", values[0] if len(values) == 1 else values, one.value)


def _dns_cache(seen: Observation, one: RequestedSetting) -> Iterator[SettingPlace]:
    """Look at CoreDNS's configuration, and at the TTL of its answers, by which every server must obey it."""
    configured = cache_seconds(seen.coredns.get("Corefile", ""))
    yield SettingPlace("CoreDNS: `cache` in its Corefile", configured, str(one.value))
    given: dict[str, int] = {}
    for running in seen.running.values():
        for server, seconds in running.lifetimes.items():
            given[server] = max(given.get(server, 0), seconds)
    for server, seconds in given.items():
        obeys = 0 < seconds <= int(one.value)
        where = f"CoreDNS at {server}: longest TTL of an answer"
        yield SettingPlace(where, one.value if obeys else seconds, one.value, steady=False)
    if not given:
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

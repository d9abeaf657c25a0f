"""What kube-proxy runs with, and whether it has rules for every Service."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from harness.kube import Cluster
from harness.kube.resources import SERVICE
from harness.validate.expected import LEFT_OUT, PROXY_MODES, ExpectedGuest
from harness.validate.facts.cluster import explicit_settings, settings_in
from harness.validate.facts.packets import MachinePackets
from harness.validate.facts.programs import MachineSetup, Rule, RunningPrograms
from harness.validate.facts.proxy_form import UNKNOWN, setting_of
from harness.validate.findings import Mismatch, differs, lasting, on_every, unjudged

# Kubernetes' defaults (kubernetes.io, "kube-proxy Configuration (v1alpha1)") of what changes packets or is open.
DEFAULTS: Mapping[str, Any] = {
    "detectLocalMode": "ClusterCIDR",
    "enableProfiling": False,
    "iptables.masqueradeAll": False,
    "nftables.masqueradeAll": False,
    "ipvs.strictARP": False,
}
# What kube-proxy sets when it starts, and the kernel's names (pkg/proxy/conntrack of Kubernetes).
CONNTRACK = {
    "tcpEstablishedTimeout": "nf_conntrack_tcp_timeout_established",
    "tcpCloseWaitTimeout": "nf_conntrack_tcp_timeout_close_wait",
}
EVERYWHERE = {4: "0.0.0.0", 6: "::"}  # noqa: S104 - by IP version, what kube-proxy reports; nobody binds to it here
GO_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
EMPTY: tuple[Any, ...] = ({}, [], "", None)


def wrong_proxy_settings(
    api: Cluster, running: Mapping[str, RunningPrograms], expected: ExpectedGuest
) -> list[Mismatch]:
    """Return settings of running kube-proxies that are not those of the cell, or not those of the ConfigMap."""
    place = expected.leaves.kube_proxy
    if expected.kube_proxy_mode == LEFT_OUT:
        kept = settings_in(api, place, "config.conf") if place is not None else None
        return [] if kept is None else [Mismatch(f"ConfigMap {place}", "none: the cell leaves out kube-proxy", "one")]
    if expected.kube_proxy_mode not in PROXY_MODES or place is None:
        return [unjudged("kube-proxy's settings", "product.yml does not say that it runs (kube_proxy)", whole=True)]
    kept = settings_in(api, place, "config.conf") or {}
    own = dict(explicit_settings(expected.variables.get("cluster_kube_proxy_config") or {}))
    of_cell = {
        "bindAddress": EVERYWHERE[expected.version],
        "mode": expected.kube_proxy_mode,
        "clusterCIDR": expected.pod_cidrs,
    }
    wanted = {**DEFAULTS, **of_cell, **own}

    def judge(name: str, seen: RunningPrograms) -> Iterator[Mismatch]:
        for path, value in wanted.items():
            yield from _other(f"{name} kube-proxy", path, value, setting_of(seen.kube_proxy, path))
        for path, value in explicit_settings(kept):
            where = f"{name} kube-proxy"
            yield from _other(where, f"{path} as in ConfigMap {place}:", value, setting_of(seen.kube_proxy, path))

    found = on_every(expected.nodes, running, judge)
    return found if kept else [*found, Mismatch(f"ConfigMap {place}", "config.conf", "none")]


def forgotten_connections(
    running: Mapping[str, RunningPrograms], packets: Mapping[str, MachinePackets], expected: ExpectedGuest
) -> list[Mismatch]:
    """Return nodes whose kernel knows connections for another time than kube-proxy has set."""
    if expected.kube_proxy_mode not in PROXY_MODES:
        return []

    def judge(name: str, seen: MachinePackets) -> Iterator[Mismatch]:
        config = running[name].kube_proxy if name in running else {}
        for setting, kernel in CONNTRACK.items():
            wanted = seconds_in(setting_of(config, f"conntrack.{setting}"))
            if wanted and seen.timeouts.get(kernel):
                yield from differs(name, f"{kernel} of kube-proxy's {setting}", str(wanted), seen.timeouts[kernel])

    return on_every(expected.nodes, packets, judge)


def seconds_in(duration: Any) -> int:
    """Return the seconds of a duration as Go writes it (1h2m3s); 0 for none, and for what is no such duration."""
    parts = GO_DURATION.fullmatch(duration) if isinstance(duration, str) else None
    return sum(int(part or 0) * unit for part, unit in zip(parts.groups(), (3600, 60, 1), strict=True)) if parts else 0


def _other(where: str, what: str, wanted: Any, seen: Any) -> list[Mismatch]:
    same = (
        seen is UNKNOWN or wanted == seen or (wanted in EMPTY and seen in EMPTY) or (wanted is False and seen is None)
    )
    return [] if same else differs(where, what, wanted, seen)


def missing_rules(services: set[Rule], setups: Mapping[str, MachineSetup], expected: ExpectedGuest) -> list[Mismatch]:
    """Return the Services' ports that kube-proxy has no rules for on a node."""
    if expected.kube_proxy_mode == LEFT_OUT:
        return on_every(expected.nodes, setups, _none_runs)
    if expected.kube_proxy_mode not in ("nftables", "iptables"):
        why = f"in mode {expected.kube_proxy_mode!r} they are not looked at"
        return [unjudged("kube-proxy's rules", why, whole=True)]

    def judge(name: str, seen: MachineSetup) -> Iterator[Mismatch]:
        if seen.rules is None:
            yield Mismatch(f"{name} kube-proxy", "a running kube-proxy", "none")
            return
        for address, protocol, port in sorted(services - seen.rules):
            yield Mismatch(f"{name} kube-proxy", f"a rule for {address} {protocol} {port}", "none")

    found = [] if services else lasting([Mismatch("the API", "Services", "none")])
    return found + on_every(expected.nodes, setups, judge)


def _none_runs(name: str, seen: MachineSetup) -> Iterator[Mismatch]:
    if seen.rules is not None:
        yield Mismatch(name, "no kube-proxy: the cell leaves it out", "it runs")


def services_of(api: Cluster) -> set[Rule]:
    """Return the address, protocol and port of every port of every Service that has an address."""
    return {
        (address, port.get("protocol", "TCP").lower(), int(port["port"]))
        for one in api.list(SERVICE).items
        for address in one["spec"].get("clusterIPs") or [one["spec"].get("clusterIP", "None")]
        if address not in ("None", "")
        for port in one["spec"].get("ports", [])
    }

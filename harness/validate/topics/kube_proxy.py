"""kube-proxy: mode and settings, rules that lead Services to their endpoints, and firewalls in packets' way.

kube-proxy tells its settings: since 1.36 in the form of the file (v1alpha1). Before, it answers with its own structure,
which has other names and other places: https://github.com/kubernetes/kubernetes, pkg/proxy/apis/config/types.go of
v1.34.4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.kube import Cluster
from harness.kube.objects import go_duration, same_setting
from harness.kube.resources import ENDPOINT_SLICE, SERVICE
from harness.spec.models.leaves import FirewallLeaves
from harness.validate.expected import LEFT_OUT, PROXY_MODES, ExpectedGuest
from harness.validate.facts.cluster import Json, explicit_settings, settings_in
from harness.validate.facts.node import NodeFacts
from harness.validate.facts.programs import MachineSetup, Rule, RunningPrograms
from harness.validate.findings import Mismatch, differs, lasting, on_every, unjudged
from harness.validate.layout import NFTABLES_TABLES, running_proxies

Endpoint = tuple[str, int]  # an address and a port behind a Service


@dataclass(frozen=True)
class MachinePackets:
    """One machine.

    iptables: rules of the kernel's own chains, with their table.  nftables: hooked chains by table (FAMILY NAME).
    destinations: what kube-proxy's rules lead to; None where none runs.  queues: the queue of every interface.
    timeouts: for how many seconds connections are known, by the kernel's name.
    """

    iptables: tuple[tuple[str, str], ...]
    nftables: Mapping[str, tuple[str, ...]]
    destinations: frozenset[Endpoint] | None
    queues: Mapping[str, str]
    timeouts: Mapping[str, str]


def packets_of(raw: Mapping[str, Any]) -> MachinePackets:
    """Read what machine/packets.py printed. Raises ValueError, KeyError or TypeError when it is malformed."""
    led = raw["destinations"]
    return MachinePackets(
        iptables=tuple((table, rule) for table, rule in raw["iptables"]),
        nftables={table: tuple(chains) for table, *chains in raw["nftables"]},
        destinations=None if led is None else frozenset((address, int(port)) for address, port in led),
        queues=raw["queues"],
        timeouts=raw["timeouts"],
    )


UNKNOWN = object()  # what the older form has no place for
MOVED = {
    "clusterCIDR": "detectLocal.clusterCIDRs",
    "conntrack": "linux.conntrack",
    "oomScoreAdj": "linux.oomScoreAdj",
    "masqueradeAll": "linux.masqueradeAll",
}
MODES = ("iptables", "nftables", "ipvs")


def setting_of(config: Mapping[str, Any], path: str) -> Any:
    """Return a setting by its path in the file; None where it is not set, UNKNOWN where the older form lacks it."""
    if "BindAddress" not in config:
        return _at(config, path, None)
    first, _, rest = path.partition(".")
    if first in MODES and first != config.get("Mode"):
        return UNKNOWN
    if rest == "masqueradeAll":
        first, rest = rest, ""
    setting = _at(config, ".".join(filter(None, (MOVED.get(first, first), rest))), UNKNOWN)
    return ",".join(setting or ()) if path == "clusterCIDR" and setting is not UNKNOWN else setting


def _at(config: Any, path: str, missing: object) -> Any:
    """Return what is at a path, whatever the case of its names."""
    for name in path.split("."):
        if not isinstance(config, Mapping):
            return missing
        key = next((key for key in config if key.lower() == name.lower()), None)
        if key is None:
            return missing
        config = config[key]
    return config


Facts = Mapping[str, NodeFacts]

OK = 200


def wrong_proxy_mode(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return where the running kube-proxy is in another mode than expected, or has written no rules of that mode."""
    if expected.kube_proxy_mode == LEFT_OUT:
        return running_proxies(facts, expected)
    if expected.kube_proxy_mode not in PROXY_MODES:
        why = f"{expected.kube_proxy_mode!r} is none of {', '.join(PROXY_MODES)}"
        return [unjudged("kube-proxy's mode", why, whole=True)]

    def judge(name: str, node: NodeFacts) -> Iterator[Mismatch]:
        answer = node.endpoints["kube-proxy mode"]
        wrong = differs(f"{name} kube-proxy", "mode", expected.kube_proxy_mode, answer.body)
        yield from lasting(wrong) if answer.status == OK else wrong
        for table in (NFTABLES_TABLES[family.version] for family in expected.families):
            if expected.kube_proxy_mode == "nftables" and table not in node.nft_tables:
                yield Mismatch(name, f"nftables' {table!r}", repr(node.nft_tables))

    return on_every(expected.nodes, facts, judge)


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
NANOSECONDS = 10**9  # of a second
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
    settings = {**DEFAULTS, **of_cell, **own}

    all_said = expected.leaves.manifests is not None
    # both are compared with the cell, so that the wrong one is named
    right = {} if all_said else dict(explicit_settings(kept))

    def judge(name: str, programs: RunningPrograms) -> Iterator[Mismatch]:
        where = f"{name} kube-proxy"
        for path, value in settings.items():
            yield from _other(where, path, value, setting_of(programs.kube_proxy, path))
        for path, value in right.items():
            yield from _other(where, f"{path} as in ConfigMap {place}:", value, setting_of(programs.kube_proxy, path))

    mismatches = on_every(expected.nodes, running, judge)
    if not all_said:
        mismatches.append(
            unjudged(f"what else ConfigMap {place} has", "product.yml does not say all of it (manifests)")
        )
    elif kept:
        mismatches += _wrong_template(f"ConfigMap {place}", kept, {**KUBEADMS, **of_cell, **own})
    return mismatches if kept else [*mismatches, Mismatch(f"ConfigMap {place}", "config.conf", "none")]


KUBEADMS = {"clientConnection.kubeconfig": "/var/lib/kube-proxy/kubeconfig.conf"}  # of its own in config.conf
NULL = ("iptables.localhostNodePorts",)  # what kubeadm leaves to the default, true


def _wrong_template(where: str, kept: Json, settings: Mapping[str, Any]) -> Iterator[Mismatch]:
    """Yield what kube-proxy's next pods would read, and nobody asked for; and what they would not."""
    for path, value in settings.items():
        yield from _other(where, path, value, _at(kept, path, None))
    for path, value in explicit_settings(kept):
        usual = DEFAULTS.get(path) == value or (value is False and path not in NULL)
        if path not in settings and not usual:
            yield Mismatch(where, f"no {path}, for which nobody asked", repr(value))


def forgotten_connections(
    running: Mapping[str, RunningPrograms], packets: Mapping[str, MachinePackets], expected: ExpectedGuest
) -> list[Mismatch]:
    """Return nodes whose kernel knows connections for another time than kube-proxy has set."""
    if expected.kube_proxy_mode not in PROXY_MODES:
        return []

    def judge(name: str, machine: MachinePackets) -> Iterator[Mismatch]:
        config = running[name].kube_proxy if name in running else {}
        for setting, kernel in CONNTRACK.items():
            seconds = seconds_in(setting_of(config, f"conntrack.{setting}"))
            if seconds and machine.timeouts.get(kernel):
                yield from differs(name, f"{kernel} of kube-proxy's {setting}", str(seconds), machine.timeouts[kernel])

    return on_every(expected.nodes, packets, judge)


def seconds_in(duration: Any) -> int:
    """Return the whole seconds of a duration as Go writes it (1h2m3s); 0 for none, and for what is not one."""
    try:
        return int(go_duration(duration) // NANOSECONDS) if isinstance(duration, str) else 0
    except ValueError:
        return 0


def _other(where: str, what: str, expected_setting: Any, setting: Any) -> list[Mismatch]:
    same = (
        setting is UNKNOWN
        or same_setting(expected_setting, setting)
        or (expected_setting in EMPTY and setting in EMPTY)
        or (expected_setting is False and setting is None)
    )
    return [] if same else differs(where, what, expected_setting, setting)


def missing_rules(services: set[Rule], setups: Mapping[str, MachineSetup], expected: ExpectedGuest) -> list[Mismatch]:
    """Return the Services' ports that kube-proxy has no rules for on a node."""
    if expected.kube_proxy_mode == LEFT_OUT:
        return on_every(expected.nodes, setups, _none_runs)
    if expected.kube_proxy_mode not in ("nftables", "iptables"):
        why = f"in mode {expected.kube_proxy_mode!r} they are not looked at"
        return [unjudged("kube-proxy's rules", why, whole=True)]

    def judge(name: str, setup: MachineSetup) -> Iterator[Mismatch]:
        if setup.rules is None:
            yield Mismatch(f"{name} kube-proxy", "a running kube-proxy", "none")
            return
        for address, protocol, port in sorted(services - setup.rules):
            yield Mismatch(f"{name} kube-proxy", f"a rule for {address} {protocol} {port}", "none")

    mismatches = [] if services else lasting([Mismatch("the API", "Services", "none")])
    return mismatches + on_every(expected.nodes, setups, judge)


def _none_runs(name: str, setup: MachineSetup) -> Iterator[Mismatch]:
    if setup.rules is not None:
        yield Mismatch(name, "no kube-proxy: the cell leaves it out", "it runs")


def services_of(api: Cluster) -> set[Rule]:
    """Return the address, protocol and port of every port of every Service that has an address."""
    return {
        (address, port.get("protocol", "TCP").lower(), int(port["port"]))
        for service in api.list(SERVICE).items
        for address in service["spec"].get("clusterIPs") or [service["spec"].get("clusterIP", "None")]
        if address not in ("None", "")
        for port in service["spec"].get("ports", [])
    }


Packets = Mapping[str, MachinePackets]
# Tables that iptables keeps in nftables, with the hooked chains that it has there.
OF_IPTABLES = ("filter", "nat", "mangle", "raw", "security")
BUILT_IN = {"INPUT", "FORWARD", "OUTPUT", "PREROUTING", "POSTROUTING"}
TARGET = re.compile(r" -[jg] (\S+)")
HARMFUL = ("netem", "tbf")  # queues that delay, lose or limit packets
NAME = "kubernetes.io/service-name"  # label of an EndpointSlice


def obstacles(packets: Packets, expected: ExpectedGuest) -> list[Mismatch]:
    """Return rules of firewalls and queues of interfaces that the product does not have."""
    firewall = expected.leaves.firewall
    if firewall is None:
        why = "product.yml does not say which rules there may be (firewall)"
        return [unjudged("rules for packets that nobody asked for", why, whole=True)]

    def judge(name: str, machine: MachinePackets) -> Iterator[Mismatch]:
        if not machine.queues:
            yield Mismatch(name, "a list of its interfaces", "none")
        yield from _strange_rules(name, machine, firewall)
        for link, queue in machine.queues.items():
            if queue in HARMFUL:
                yield Mismatch(f"{name} {link}", "a queue that only passes packets on", queue)

    return on_every(expected.machines, packets, judge)


def _strange_rules(name: str, machine: MachinePackets, firewall: FirewallLeaves) -> Iterator[Mismatch]:
    for table, rule in machine.iptables:
        if rule.endswith(tuple(f" -m mark --mark {mark} -j ACCEPT" for mark in firewall.marks)):
            continue
        target = TARGET.search(rule)
        if target is None or not target.group(1).startswith(firewall.chains):
            chains = ", ".join(f"{start}*" for start in firewall.chains)
            yield Mismatch(f"{name} iptables {table}", f"only jumps to {chains}", rule)
    for table, hooked in machine.nftables.items():
        own = table.partition(" ")[2]
        strange = sorted(set(hooked) - BUILT_IN) if own in OF_IPTABLES else []
        if own not in (*OF_IPTABLES, *firewall.tables):
            yield Mismatch(f"{name} nftables", f"no other tables than {', '.join(firewall.tables)}", f"table {table}")
        elif strange:
            yield Mismatch(f"{name} nftables table {table}", "iptables' own chains", ", ".join(strange))


def endpoints_of(api: Cluster) -> tuple[set[Endpoint], set[Endpoint]]:
    """Return the endpoints that every node's rules must lead to, and those that they may lead to."""
    must, may = set[Endpoint](), set[Endpoint]()
    services = {
        (service["metadata"]["namespace"], service["metadata"]["name"]): service for service in api.list(SERVICE).items
    }
    for piece in api.list(ENDPOINT_SLICE).items:
        name = (piece["metadata"].get("labels") or {}).get(NAME, "")
        service = services.get((piece["metadata"]["namespace"], name))
        if service is None or piece.get("addressType", "IPv4") not in ("IPv4", "IPv6"):
            continue
        numbers = [int(port["port"]) for port in piece.get("ports") or () if port.get("port")]
        for endpoint in piece.get("endpoints") or ():
            here = {(address, number) for address in endpoint["addresses"] for number in numbers}
            may |= here
            ready = (endpoint.get("conditions") or {}).get("ready") is not False
            must |= here if ready and _everywhere(service, endpoint) else set()
    return must, may


def _everywhere(service: Json, endpoint: Json) -> bool:
    """Tell whether every node leads to every endpoint of a Service: it has an address, and nothing chooses by place."""
    spec = service["spec"]
    placed = spec.get("internalTrafficPolicy") == "Local" or spec.get("trafficDistribution") or endpoint.get("hints")
    return spec.get("clusterIP", "None") not in ("None", "") and not placed


def strayed_rules(must: set[Endpoint], may: set[Endpoint], packets: Packets, expected: ExpectedGuest) -> list[Mismatch]:
    """Return endpoints of Services that a node's rules do not lead to, and what they lead to that is none."""
    if expected.kube_proxy_mode == LEFT_OUT:  # another check sees that none runs
        return []
    if expected.kube_proxy_mode not in ("nftables", "iptables"):
        return [
            unjudged("where kube-proxy's rules lead", f"in mode {expected.kube_proxy_mode!r} they are not looked at")
        ]

    def judge(name: str, machine: MachinePackets) -> Iterator[Mismatch]:
        for address, port in sorted(must - (machine.destinations or frozenset())):
            yield Mismatch(f"{name} kube-proxy", f"a rule that leads to the endpoint {address}:{port}", "none")
        for address, port in sorted((machine.destinations or frozenset()) - may):
            yield Mismatch(f"{name} kube-proxy", "rules that lead to endpoints of Services only", f"{address}:{port}")

    mismatches = [] if must else [Mismatch("the API", "endpoints of Services", "none")]
    return mismatches + on_every(expected.nodes, packets, judge)

"""How fast the cluster is. Each item measures, and fails only if there is nothing to measure; the last one compares."""

from __future__ import annotations

from functools import partial

import pytest

from harness.model import Cell, Mirror
from harness.session import Cells
from harness.session.past_figures import figures_of_run, past_figures
from harness.spec.models import Timeouts
from harness.validate.commands import on_machine
from harness.validate.facts import cluster
from harness.validate.findings import Mismatch, NotRun, require
from harness.validate.performance import control_plane, network, pods
from harness.validate.performance.bench import Bench, Told, idle_usage
from harness.validate.performance.comparison import compare
from harness.validate.performance.pods import TOOLS_IMAGE, tools_image


@pytest.fixture(scope="module")
def tools(mirror: Mirror, timeouts: Timeouts) -> str:
    """The image of the programs that measure from pods."""
    found = tools_image(mirror, timeouts)
    if found is None:
        raise NotRun(f"image {TOOLS_IMAGE} missing in {mirror.registry}; a run of a tier with this suite has it")
    return found


def test_idle_programs(bench: Bench, tell: Told) -> None:
    hosts = bench.hosts(bench.expected.machines)
    used, taken = bench.beside(lambda: idle_usage(hosts, bench.timeouts, bench.programs))
    require(
        [Mismatch(name, "programs of the cluster", "none") for name, one in used.items() if not one.programs],
        claim="the cluster's programs run on every machine",
        look="the units and static pods of the machine",
        do=on_machine(bench.expected, "systemctl --no-pager --failed; ctr -n k8s.io containers ls"),
    )
    memory = [taken.of("idle_memory", name, one.mib, [name]) for name, one in used.items()]
    cpu = [taken.of("idle_cpu", name, one.cpu, [name]) for name, one in used.items()]
    tell(*memory, *cpu, *taken.figures(), words="; ".join(one.told for one in (*memory, *cpu)))


def test_pod_start(bench: Bench, tell: Told) -> None:
    """Measures how long a pod takes from its creation to Running, on each node."""
    figures = []
    for node in bench.places:
        took, taken = bench.beside(partial(pods.pod_starts, bench.api, node, bench.image, bench.deadline()))
        assert len(took) == pods.STARTED_PODS
        p50, p99 = pods.p50_p99(took)
        figures += [taken.of("pod_start_p50", node, p50, [node]), taken.of("pod_start_p99", node, p99, [node])]
    tell(*figures)


def test_api_requests(bench: Bench, tell: Told) -> None:
    times, taken = bench.beside(lambda: control_plane.api_times(bench.api))
    require(
        [Mismatch(bench.api.server, "all requests of the load in its histograms", said) for said in times.missing()],
        claim="the API server that is asked counts the requests that it is asked",
        look="whether several API servers answer at this address; that of one of them is needed in the kubeconfig",
        do="kubectl --kubeconfig kubeconfig get --raw /metrics | grep apiserver_request_duration_seconds_count",
    )
    machines = bench.expected.control_plane
    figures = [
        taken.of(name, key, value, machines)
        for key, seen in sorted(times.requests.items())
        for name, value in (("api_mean", seen.mean), ("api_p99", seen.quantile(0.99)))
    ]
    tell(*figures, taken.of("api_storage_mean", "", times.storage.mean, machines))


def test_scheduling(bench: Bench, tell: Told) -> None:
    """Measures how many pods a second the scheduler binds."""
    place = partial(pods.scheduled_per_second, bench.api, bench.places[0], bench.image, bench.deadline())
    (rate, _), taken = bench.beside(place)
    tell(taken.of("scheduler_throughput", "", rate, bench.expected.control_plane))


def test_services(bench: Bench, tell: Told) -> None:
    nodes = bench.expected.nodes
    measure = partial(network.programming_seconds, bench.api, bench.hosts(nodes), bench.image, bench.timeouts)
    took, taken = bench.beside(lambda: measure(bench.deadline()))
    wanted = f"answers of all {network.ROUNDS} Services within {network.AFTER:.0f} s"
    require(
        [Mismatch(node, wanted, str(found)) for node, found in took.items() if None in found or not found],
        claim="a Service answers on every node once it has an endpoint that is ready",
        look="the kube-proxy pods' logs",
        do=on_machine(bench.expected, "iptables-save -t nat 2>/dev/null; nft list ruleset"),
    )
    tell(*(taken.of("service_programming", node, network.median_of(found), [node]) for node, found in took.items()))


def test_dns(bench: Bench, tools: str, tell: Told) -> None:
    server, domain = cluster.dns_address(bench.api, bench.expected), bench.expected.dns_domain
    figures, lost = [], []
    for node in bench.expected.nodes:
        ask = partial(network.dns_of_node, bench.api, node, tools, server, domain, bench.deadline())
        (steady, most), taken = bench.beside(ask)
        lost += [Mismatch(node, f"{steady.sent} answers", str(steady.completed))] if not steady.completed else []
        figures.append(taken.of("dns_latency", node, steady.latency, [node]))
        figures.append(taken.of("dns_rate", node, most.rate, [node]))
    require(
        lost,
        claim="DNS answers pods on every node",
        look="CoreDNS's logs; the Service kube-system/kube-dns",
        do="kubectl --kubeconfig kubeconfig -n kube-system logs deployment/coredns",
    )
    tell(*figures)


def test_pod_network(bench: Bench, tools: str, tell: Told) -> None:
    """Measures throughput and latency between pods, for pairs of nodes."""
    nodes = bench.expected.nodes
    servers = network.serve(bench.api, nodes, tools, bench.deadline())
    figures = []
    for source in nodes:
        asked = {node: servers[node] for node in network.targets(nodes, source)}
        ask = partial(network.network_of_node, bench.api, source, asked, tools, bench.deadline())
        found, taken = bench.beside(ask)
        for node, pair in found.items():
            where = f"{source} -> {node}"
            figures.append(taken.of("pod_throughput", where, pair.throughput, {source, node}))
            figures.append(taken.of("pod_round_trip", where, pair.round_trip, {source, node}))
    tell(*figures)


def test_etcd(bench: Bench, tell: Told) -> None:
    hosts = bench.hosts(bench.expected.etcd)
    load = partial(control_plane.rounds, bench.api, control_plane.ROUNDS)
    found, taken = bench.beside(lambda: control_plane.etcd_times(hosts, bench.timeouts, load))
    require(
        [
            Mismatch(name, "its histograms of fsync and commit to grow", f"of {', '.join(seen) or 'nothing'}")
            for name, seen in found.items()
            if set(seen) != set(control_plane.METRICS)
        ],
        claim="every etcd member counts how long its writes take",
        look="--listen-metrics-urls of etcd",
        do=on_machine(bench.expected, "curl http://127.0.0.1:2381/metrics", machine=bench.expected.etcd[0]),
    )
    tell(
        *(
            taken.of(f"etcd_{name}_{part}", member, value, [member])
            for member, seen in found.items()
            for name, one in seen.items()
            for part, value in (("mean", one.mean), ("p99", one.quantile(0.99)))
        )
    )


def test_nothing_is_slower_than_usual(cells: Cells, cell: Cell, phase: int, bench: Bench, tell: Told) -> None:
    stage = cell.stage(phase)
    now = figures_of_run(cells.plan, cell, stage)
    if not now:
        raise NotRun("no figure was measured before this check")
    found = compare(now, past_figures(cells.plan, cell, stage))
    tell(words=found.told)
    tier = cells.plan.project.spec.tiers.get(cells.plan.tier or "")
    counts = tier.fail_when if tier is not None else ()
    slow = [Mismatch(one.figure.where or "the cluster", "as fast as usual", one.told) for one in found.slower]
    over = [Mismatch(one.where or "the cluster", f"at most {most:g} s", one.told) for one, most in found.over]
    require(
        [*(slow if "slower" in counts else ()), *(over if "over-slo" in counts else ())],
        claim=f"no figure is {' or '.join(counts) or 'wrong'}, as the tier's fail_when wants it",
        look="the report's section Performance; is the calibration of the same machines slower, too?",
        do="vmatrix report --serve",
    )

"""A cell's NetworkPolicy keeps its machines to themselves, and lets in and out what a run needs."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cell import manifests
from harness.cell.network import endpoints, needs_internet, outside, refuse_masquerade
from harness.cell.place import cell_labels, place_of
from harness.cell.site import Site
from harness.errors import BadInput, InfraError
from harness.kube.client import Json
from harness.machines.network_rules import LAUNCHER
from harness.model import Cell, Mirror, Phase, PlannedMachine
from harness.paths import project_dir
from harness.spec import load_spec
from harness.spec.settings import load_settings
from tests.unit.cell.policies import End, connects

TEMPLATES = project_dir() / "vm-templates"
SPEC = load_spec(project_dir() / "matrix")
MIRROR = Mirror(http="http://192.0.2.10:8080", registry="192.0.2.10:5000")
CLOUD = next(v for v in SPEC.axis("os").values if "internet" in v.needs)
AIR_GAPPED = {"os": "debian-13"}
OPEN = {"os": CLOUD.id}
SHARED = "vmatrix-cells"
DNS = End("10.96.0.9", "kube-system", {"k8s-app": "kube-dns"})
VIRT_API = End("10.96.0.8", "kubevirt", {"kubevirt.io": "virt-api"})
RUNNER = End("10.96.0.7", "gitlab", {"app": "runner"})
ANYBODY = End("10.96.0.6", "default", {"app": "any"})
MIRROR_HOST = End("192.0.2.10")
API_SERVER = End("192.0.2.1")
METADATA = End("169.254.169.254")
UPSTREAM = End("93.184.215.14")


@dataclass(frozen=True)
class Cells:
    """What lies in an infra cluster: cells with their policies, all in one namespace or each in its own."""

    shared: str | None
    policies: list[Json] = field(default_factory=list)

    def add(self, run: str, *, site: Site, values: dict[str, str]) -> tuple[End, End]:
        """Add a cell; return two of its machines' launcher pods."""
        cell = a_cell(values)
        place = place_of(run, cell.id, 1, shared=self.shared, environment={})
        labels = cell_labels(run=run, cell=cell.id, attempt=1, expires_at=1e9, environment={})
        plan = manifests.CellPlan(place.namespace, labels, "key", "cluster.local", None, place.prefix, expires_at=1e9)
        self.policies.append(manifests.network_policy(plan, outside(site, cell), directory=TEMPLATES))
        number = len(self.policies)
        pods = (
            End(f"10.96.{number}.{host}", place.namespace, {**LAUNCHER, **labels, "vmatrix.dev/machine": name})
            for host, name in enumerate(("cp-0", "w-0"), 1)
        )
        first, second = pods
        return first, second


def a_cell(values: dict[str, str]) -> Cell:
    return Cell("a-cell", values, "fresh", (), (), {})


def a_site(**different: Any) -> Site:
    known: dict[str, Any] = {
        "spec": SPEC,
        "mirror": MIRROR,
        "access": "portforward",
        "cluster": SimpleNamespace(server="https://127.0.0.1:6443"),
        "egress_networks": (),
        "ingress_networks": (),
    }
    return cast(Site, SimpleNamespace(**(known | different)))


@pytest.fixture(params=[None, SHARED], ids=["a namespace each", "one shared namespace"])
def cells(request: pytest.FixtureRequest) -> Cells:
    return Cells(request.param)


@pytest.fixture(autouse=True)
def _outside_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("KUBERNETES_SERVICE_HOST", "POD_NAMESPACE"):
        monkeypatch.delenv(variable, raising=False)


def test_machines_of_a_cell_reach_each_other_on_every_port(cells: Cells) -> None:
    one, two = cells.add("run1", site=a_site(), values=AIR_GAPPED)
    assert all(
        connects(cells.policies, *ends, port, p)
        for ends in ((one, two), (two, one))
        for port in (22, 6443, 31000)
        for p in ("TCP", "UDP")
    )


def test_machines_of_other_cells_are_out_of_reach_both_ways(cells: Cells) -> None:
    mine, _ = cells.add("run1", site=a_site(), values=OPEN)
    theirs, _ = cells.add("run2", site=a_site(), values=OPEN)
    assert not connects(cells.policies, mine, theirs, 22)
    assert not connects(cells.policies, theirs, mine, 22)


def test_machines_that_the_product_made_are_isolated_like_the_others() -> None:
    cells = Cells(None)
    mine, _ = cells.add("run1", site=a_site(), values=AIR_GAPPED)
    theirs, _ = cells.add("run2", site=a_site(), values=AIR_GAPPED)
    made, other = (replace(pod, labels={**LAUNCHER, "cluster.vmatrix.dev/machine": "w-1"}) for pod in (mine, theirs))
    assert connects(cells.policies, made, mine, 10250), "one of the same cell"
    assert not connects(cells.policies, made, other, 22)
    assert not connects(cells.policies, made, ANYBODY, 443)
    assert not connects(cells.policies, ANYBODY, made, 22)


def test_a_cell_without_a_policy_does_not_reach_one_that_has_it(cells: Cells) -> None:
    mine, _ = cells.add("run1", site=a_site(), values=AIR_GAPPED)
    theirs, _ = cells.add("run2", site=a_site(), values=AIR_GAPPED)
    only_mine = cells.policies[:1]
    assert not connects(only_mine, theirs, mine, 22)
    assert connects([], theirs, mine, 22), "the evaluation allows what no policy is about"


@pytest.mark.parametrize(
    ("target", "port", "protocol", "reached"),
    [
        (DNS, 53, "UDP", True),
        (DNS, 53, "TCP", True),
        (DNS, 9153, "TCP", False),
        (replace(DNS, labels={"app": "other"}), 53, "UDP", False),
        (MIRROR_HOST, 8080, "TCP", True),
        (MIRROR_HOST, 5000, "TCP", True),
        (MIRROR_HOST, 22, "TCP", False),
        (MIRROR_HOST, 8080, "UDP", False),
        (API_SERVER, 6443, "TCP", False),
        (ANYBODY, 80, "TCP", False),
        (VIRT_API, 8443, "TCP", False),
        (METADATA, 80, "TCP", False),
        (UPSTREAM, 443, "TCP", False),
    ],
)
def test_a_machine_reaches_dns_the_mirror_and_the_registry_alone(
    cells: Cells, target: End, port: int, protocol: str, reached: bool
) -> None:
    machine, _ = cells.add("run1", site=a_site(), values=AIR_GAPPED)
    assert connects(cells.policies, machine, target, port, protocol) is reached


@pytest.mark.parametrize(("source", "let_in"), [(VIRT_API, True), (RUNNER, False), (ANYBODY, False), (UPSTREAM, False)])
def test_portforward_s_way_in_is_open_and_no_other(cells: Cells, source: End, let_in: bool) -> None:
    machine, _ = cells.add("run1", site=a_site(), values=AIR_GAPPED)
    assert connects(cells.policies, source, machine, 22) is let_in


def test_a_cell_that_needs_upstream_sites_reaches_them_and_nothing_private(cells: Cells) -> None:
    machine, _ = cells.add("run1", site=a_site(), values=OPEN)
    assert connects(cells.policies, machine, UPSTREAM, 443)
    assert connects(cells.policies, machine, End("2606:2800:21f::1"), 443)
    for private in (METADATA, End("10.1.2.3"), End("172.20.0.1"), End("100.64.0.1"), End("fd00::1"), ANYBODY):
        assert not connects(cells.policies, machine, private, 443), private


def test_the_settings_add_networks(cells: Cells) -> None:
    site = a_site(egress_networks=("198.51.100.0/24",), ingress_networks=("203.0.113.0/28",))
    machine, _ = cells.add("run1", site=site, values=AIR_GAPPED)
    assert connects(cells.policies, machine, End("198.51.100.9"), 3128)
    assert connects(cells.policies, End("203.0.113.3"), machine, 22)
    assert not connects(cells.policies, End("203.0.113.99"), machine, 22)


def test_direct_connections_come_from_the_job_s_namespace(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("POD_NAMESPACE", RUNNER.namespace)
    machine, _ = cells.add("run1", site=a_site(access="direct"), values=AIR_GAPPED)
    assert connects(cells.policies, RUNNER, machine, 22)
    assert not connects(cells.policies, ANYBODY, machine, 22)


def test_direct_connections_come_from_this_host_s_address_on_the_way_to_the_api() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 6443))
        except OSError:
            pytest.fail("this host has no way out: its address cannot be told")
        ours = probe.getsockname()[0]
    site = a_site(access="direct", cluster=SimpleNamespace(server="https://192.0.2.1:6443"))
    assert outside(site, a_cell(AIR_GAPPED)).ways_in == ({"ipBlock": {"cidr": f"{ours}/32"}},)


def test_importers_and_others_in_the_namespace_are_not_concerned(cells: Cells) -> None:
    machine, _ = cells.add("run1", site=a_site(), values=AIR_GAPPED)
    labels = {label: value for label, value in machine.labels.items() if label != "kubevirt.io"}
    importer = replace(machine, labels={**labels, "app": "containerized-data-importer"})
    assert connects(cells.policies, importer, UPSTREAM, 443)
    assert connects(cells.policies, ANYBODY, importer, 8443)
    assert not connects(cells.policies, importer, machine, 22)


def test_a_mirror_in_the_cluster_is_reached_by_its_namespace() -> None:
    mirror = Mirror(http="http://mirror.artifacts.svc:8080", registry="registry.artifacts.svc.cluster.local:5000")
    rules = outside(a_site(mirror=mirror), a_cell(AIR_GAPPED)).ways_out
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "artifacts"}}}
    assert rules == ({"to": [peer]}, {"to": [peer]})


def test_a_mirror_s_name_is_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, 1, 6, "", ("192.0.2.9", 80)), (socket.AF_INET6, 1, 6, "", ("2001:db8::9", 80, 0, 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    rules = outside(a_site(mirror=Mirror("https://mirror.example", "r.example:5000")), a_cell(AIR_GAPPED)).ways_out
    blocks = [{"ipBlock": {"cidr": "192.0.2.9/32"}}, {"ipBlock": {"cidr": "2001:db8::9/128"}}]
    assert [(rule["to"], rule["ports"][0]["port"]) for rule in rules] == [(blocks, 443), (blocks, 5000)]


def test_a_name_that_nobody_knows_ends_the_cell_unless_networks_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    mirror = Mirror("http://mirror.example", "mirror.example:5000")
    with pytest.raises(InfraError, match=r"mirror_http: mirror\.example cannot be resolved") as caught:
        outside(a_site(mirror=mirror), a_cell(AIR_GAPPED))
    assert "network_policy_egress" in (caught.value.hint or "")
    given = outside(a_site(mirror=mirror, egress_networks=("192.0.2.0/24",)), a_cell(AIR_GAPPED))
    assert given.ways_out == ({"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]},)


def test_a_cell_reaches_what_is_delivered_into_it_where_nobody_pushes() -> None:
    site = a_site(deliveries="192.0.2.10:5001", pulls="192.0.2.10:5002")
    phases = (Phase("deploy"), Phase("deliver", delivery="answers", delivery_into="guest"))
    for cell, reached in ((a_cell(AIR_GAPPED), False), (replace(a_cell(AIR_GAPPED), phases=phases), True)):
        ports = {port["port"] for way in outside(site, cell).ways_out for port in way.get("ports", ())}
        assert (5002 in ports, 5001 in ports) == (reached, False)


def test_endpoints_have_ports_of_their_schemes() -> None:
    ends = endpoints(Mirror("http://[2001:db8::1]", "registry.example"))
    assert [(end.host, end.port) for end in ends] == [("2001:db8::1", 80), ("registry.example", 443)]


def test_what_a_cell_needs_is_told_by_its_values() -> None:
    assert needs_internet(a_site(), a_cell(OPEN))
    assert not needs_internet(a_site(), a_cell(AIR_GAPPED))
    assert not needs_internet(a_site(), a_cell({"topology": "of-a-test"}))


def cell(machines: int) -> Cell:
    planned = tuple(PlannedMachine(f"m-{n}", ("node",), 1, 512, 10, "debian-13") for n in range(machines))
    return Cell(f"of-{machines}", {}, "fresh", (), planned, {})


def test_masquerade_is_for_clusters_of_one_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vmatrix.yml").write_text("runs: runs\nbinding: masquerade\n")
    sourced = load_settings(tmp_path, environment={})
    refuse_masquerade(sourced, [cell(1)])
    with pytest.raises(BadInput) as refused:
        refuse_masquerade(sourced, [cell(1), cell(2), cell(3)])
    assert refused.value.summary.startswith("vmatrix.yml:2: binding: masquerade")
    assert "of-2 and 1 more cells has 2 machines" in refused.value.summary
    assert "10.0.2.2" in refused.value.summary


def test_bridge_is_for_all(tmp_path: Path) -> None:
    refuse_masquerade(load_settings(tmp_path, environment={}), [cell(3)])

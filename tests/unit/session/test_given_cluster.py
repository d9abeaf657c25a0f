"""A cluster that vmatrix did not make, as checks see it: its machines, its values, what is not judged, how SSH goes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml

from harness.errors import BadInput
from harness.machines import given_inventory
from harness.machines.reach.ssh import control_directory
from harness.paths import packaged_dir
from harness.session.given_cluster import (
    DEFAULT_SUITES,
    MTU,
    NEEDED,
    ForeignCheck,
    GivenCluster,
    not_judged,
    plan_foreign,
    without,
)
from harness.spec.models.facts import Facts
from harness.spec.settings import Settings
from harness.spec.suites import fits, titles
from harness.validate.expected import expected_of, upstream_of
from harness.validate.variables import enforces_policies
from tests.unit.refusals.lying import kubeconfig
from tests.unit.validate import versions

HOSTS = "[masters]\na ansible_host=192.0.2.1\n[workers]\nb ansible_host=192.0.2.2\n[all:vars]\nansible_user=admin\n"


class _Version(BaseHTTPRequestHandler):
    release = "v1.35.4"

    def do_GET(self) -> None:
        data = json.dumps({"gitVersion": self.release}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


READ: dict[object, given_inventory.Connections] = {}  # what Ansible reads of an inventory, by its text


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GivenCluster]:
    ask = given_inventory.connections

    def read_once(files: Sequence[Path], groups: Sequence[str], values: Mapping[str, str]) -> object:
        key = tuple(file.read_text(encoding="utf-8") for file in files), tuple(groups), tuple(values.items())
        if key not in READ:
            READ[key] = ask(files, groups, values)
        return READ[key]

    monkeypatch.setattr(given_inventory, "connections", read_once)
    server = HTTPServer(("127.0.0.1", 0), _Version)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    (tmp_path / "kc").write_text(kubeconfig({"server": f"http://127.0.0.1:{server.server_address[1]}"}), "utf-8")
    (tmp_path / "hosts").write_text(HOSTS, encoding="utf-8")
    settings = Settings.model_validate({"runs": tmp_path / "runs"})
    yield GivenCluster(settings, tmp_path / "kc", (tmp_path / "hosts",), tmp_path / "facts.yml")
    server.shutdown()
    server.server_close()


def planned(where: GivenCluster, facts: Mapping[str, object], *suites: str) -> ForeignCheck:
    assert where.facts is not None
    where.facts.write_text(yaml.safe_dump({"facts": dict(facts)}), encoding="utf-8")
    return plan_foreign(where, suites)


def test_what_nobody_says_is_not_judged_but_for_the_release_that_runs(where: GivenCluster) -> None:
    check = planned(where, {})
    expected = expected_of(check.guest, check.plan.project.spec.product_of({}).cluster)
    assert (expected.kubernetes, expected.minor) == ("1.35.4", "1.35")
    assert (expected.runtime, expected.pod_cidr, expected.kube_proxy_mode, expected.plugin) == ("", "", "", None)
    left = {entry.check for entry in check.plan.project.spec.product.checks.leave_out}
    assert {"network: *", "cluster: test_nodes_have_the_expected_versions"} <= left
    assert check.not_judged[0].startswith("kubernetes: ")
    assert not where.settings.runs.exists()


def test_what_is_said_is_expected(where: GivenCluster) -> None:
    said = {
        "kubernetes": "v1.36.3",
        "container_runtime": "containerd",
        "container_runtime_version": "2.1.0",
        "pod_cidr": "10.244.0.0/16",
        "test_registry": "192.0.2.9:5000",
        "checks": {"leave_out": [{"check": "nodes: test_no_unit_has_failed", "reason": "ours"}]},
    }
    check = planned(where, said, "nodes")
    expected = expected_of(check.guest, check.plan.project.spec.product_of({}).cluster)
    assert (expected.kubernetes, expected.runtime_version, expected.pod_cidr) == ("1.36.3", "2.1.0", "10.244.0.0/16")
    assert check.plan.suites() == frozenset({"nodes"})
    assert check.site(print).mirror.registry == "192.0.2.9:5000"
    reasons = {entry.check: entry.reason for entry in check.plan.project.spec.product.checks.leave_out}
    assert reasons["nodes: test_no_unit_has_failed"] == "ours"
    assert "network: *" not in reasons


def test_machines_have_the_roles_of_the_inventory_and_no_cell(where: GivenCluster) -> None:
    check = planned(where, {})
    expected = expected_of(check.guest, check.plan.project.spec.product_of({}).cluster)
    assert (expected.control_plane, expected.workers, expected.etcd) == (("a",), ("b",), ("a",))
    assert expected.login("a") == "log in to a"
    words = check.connect(check.guest.environment)
    control_directory(check.plan.run, "cluster").rmdir()
    assert "-i" not in words
    assert "IdentitiesOnly=yes" not in words
    assert "BatchMode=yes" in words
    assert "StrictHostKeyChecking" not in " ".join(words)


def test_policies_are_only_judged_where_the_facts_say_that_something_enforces_them(where: GivenCluster) -> None:
    assert planned(where, {"network_policies": True}).plan.suites() == frozenset({*DEFAULT_SUITES, "policies"})
    assert planned(where, {"network_policies": True}, "policies").plan.suites() == frozenset({"policies"})
    assert enforces_policies(planned(where, {"network_policies": True}).plan.cells[0], 0)
    for said in ({}, {"network_policies": False}):
        assert planned(where, said).plan.suites() == frozenset(DEFAULT_SUITES)
        assert not enforces_policies(planned(where, said).plan.cells[0], 0)
        with pytest.raises(BadInput, match=r"facts\.yml:[12]: facts\.network_policies: the suite policies needs"):
            planned(where, said, "policies")
    with pytest.raises(BadInput, match="no file says that this one does"):
        plan_foreign(replace(where, facts=None), ("policies",))


def test_a_cluster_of_both_ip_families_has_two_addresses_a_machine(where: GivenCluster) -> None:
    facts = {"pod_cidr": "10.244.0.0/16", "variables": {"cluster_ipv6_pod_cidr": "fd10:244::/56"}}
    with pytest.raises(BadInput, match="gives no IPv6 address to a, b"):
        planned(where, facts)
    second = HOSTS.replace("192.0.2.1", "192.0.2.1 ipv6_address=fd00::1").replace("192.0.2.2", "192.0.2.2 ip6=fd00::2")
    where.inventories[0].write_text(second, encoding="utf-8")
    check = planned(where, facts)
    expected = expected_of(check.guest, check.plan.project.spec.product_of({}).cluster)
    assert expected.addresses_of("b") == ("192.0.2.2", "fd00::2")


@pytest.mark.parametrize(
    ("version", "upstream", "minor", "suite"),
    [*((*row, "") for row in versions.TABLE), *((*versions.TABLE[2], suite) for suite in DEFAULT_SUITES)],
)
def test_a_cluster_of_any_release_is_judged_but_for_what_nobody_knows_of_its_minor(
    where: GivenCluster, version: str, upstream: str, minor: str, suite: str
) -> None:
    check = planned(where, {"kubernetes": version, "test_registry": "192.0.2.9:5000"}, *([suite] if suite else []))
    expected = expected_of(check.guest, check.plan.project.spec.product_of({}).cluster)
    assert (expected.minor, upstream_of(expected.kubernetes)) == (minor, upstream)
    left = {entry.check: entry.reason for entry in check.plan.project.spec.product.checks.leave_out}
    unlisted = minor not in versions.LISTED
    assert ("network: *" in left) is unlisted
    if unlisted:
        assert f"Kubernetes {minor} has no conformance list" in left["network: *"]
        asked = not suite or suite == "network"
        assert any(line.startswith("network: *: ") for line in check.not_judged) is asked


# What API servers of others answer, and whether it is a release.
ANSWERED = {
    **dict.fromkeys(("v1.18.20", "v1.40.0", "v1.31.5+k3s1", "v1.30.6+rke2r1", "v1.33.4-eks-1-33-12"), True),
    **dict.fromkeys(("v1.32.4-gke.1415000", "v1.27.16+4b2f4a3", "v1.36.0-alpha.1", "v1.36.0-rc.1"), True),
    **dict.fromkeys(("v1.37.0-alpha.0.123+abcdef1234567-dirty", "v1.26.5+k0s.0", "v1.31.1-mirantis-1"), True),
    **dict.fromkeys(("", "unknown", "v1.14+", "v1.36", "v2.0.0", "v0.0.0-master+$Format:%H$", "../../x"), False),
}


@pytest.mark.parametrize("release", ANSWERED)
def test_a_release_that_is_none_is_refused_with_what_to_write(
    where: GivenCluster, release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Version, "release", release)
    assert planned(where, {"kubernetes": "1.36.3"}).variables["cluster_kubernetes_version"] == "1.36.3"
    if ANSWERED[release]:
        assert planned(where, {}).variables["cluster_kubernetes_version"] == release.removeprefix("v")
    else:
        with pytest.raises(BadInput, match="which is not one of Kubernetes") as refused:
            planned(where, {})
        assert "`kubernetes: 1.36.3`" in (refused.value.hint or "")


@pytest.mark.parametrize(("version", "upstream", "minor"), [versions.TABLE[0], *versions.TABLE[2:6]])
def test_conformance_of_a_minor_without_a_list_is_refused_where_it_is_asked_for(
    where: GivenCluster, version: str, upstream: str, minor: str
) -> None:
    assert upstream
    facts = {"kubernetes": version, "test_registry": "192.0.2.9:5000"}
    if minor in versions.LISTED:
        assert planned(where, facts, "conformance").plan.suites() == frozenset({"conformance"})
        return
    with pytest.raises(BadInput, match=f"Kubernetes {minor} has no conformance list") as refused:
        planned(where, facts, "conformance")
    assert refused.value.exit_code == 2
    assert refused.value.hint


CHECKS = [glob for globs in NEEDED.values() for glob in globs]


@pytest.mark.parametrize("glob", CHECKS)
def test_what_is_left_out_exists(glob: str) -> None:
    assert any(fits(name, glob) for name in titles(packaged_dir()))


def test_every_fact_that_checks_need_is_one() -> None:
    assert set(NEEDED) <= set(Facts().unsaid())


def test_what_is_said_is_judged() -> None:
    said = Facts(kubernetes="1.36.3", test_registry="192.0.2.1:5000")
    left = {entry.check for entry in without(said, "1.36")}
    assert not left & {*NEEDED["kubernetes"], *NEEDED["test_registry"]}
    assert set(NEEDED["kube_proxy_mode"]) <= left


def test_packets_of_the_mtu_are_judged_where_the_plugin_is_described() -> None:
    described = Facts.model_validate({"cluster": {"network_plugins": {}}})
    assert MTU in without(Facts(network_plugin="flannel"), "1.36")
    assert MTU not in without(described, "1.36")


def test_what_is_not_said_is_listed() -> None:
    lines = not_judged(Facts.model_validate({"pod_cidr": "10.244.0.0/16"}), DEFAULT_SUITES, "1.36")
    assert lines[0].startswith("kubernetes: the facts do not say it; minor and defaults are those of the API server")
    assert any(line.startswith("dns_domain: ") for line in lines)
    assert not any(line.startswith("pod_cidr") for line in lines)
    assert lines[-1] == "suite conformance: --suite conformance runs it"

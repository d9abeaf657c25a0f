"""What a guest must look like is read from its cell's variables, and its images from the matrix."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import HarnessBug
from harness.model import Phase
from harness.spec.models.leaves import PluginLeaves
from harness.validate.expected import expected_of, minor_of, of_vni, plugins, system_of, upstream_of
from harness.validate.findings import differs_upstream
from harness.validate.variables import customised_flags
from tests.unit.validate import guests, versions


def without(*names: str) -> guests.Json:
    return {name: value for name, value in guests.VARIABLES.items() if name not in names}


def test_a_cell_without_a_version_of_kubernetes_cannot_be_judged() -> None:
    with pytest.raises(HarnessBug, match="cluster_kubernetes_version"):
        guests.expected(variables=without("cluster_kubernetes_version"))


def test_a_version_that_no_variable_has_or_that_the_product_decides_is_unknown() -> None:
    unsaid = guests.expected(variables=without("cluster_runc_version"))
    own = guests.expected(leaves=guests.OURS.model_copy(update={"own_versions": ("runc", "container_runtime")}))
    assert (unsaid.runc, own.runc, own.runtime_version) == ("", "", "")
    assert unsaid.why_unknown("runc") == "the cell's variables have no cluster_runc_version"
    said = {own.why_unknown(of) for of in ("containerd", "runc")}
    assert said == {"the product decides it (own_versions of product.yml)"}


def test_another_runtime_has_its_own_unit_and_settings() -> None:
    usual = guests.expected()
    other = guests.expected(
        variables={**guests.VARIABLES, "cluster_container_runtime": "crio", "cluster_crio_version": "1.34.0"}
    )
    assert (usual.leaves.runtime_unit, other.leaves.runtime_unit) == ("containerd.service", "crio.service")
    assert other.leaves.runtime_settings == guests.OURS.other_runtimes["crio"].settings
    assert (other.runtime_process, other.runtime_version) == ("crio", "1.34.0")


def test_what_a_product_says_of_a_network_plugin_wins_over_the_file() -> None:
    other = PluginLeaves(unit=None, daemon_set="kube-system/kube-flannel")
    plugin = guests.expected(leaves=guests.OURS.model_copy(update={"network_plugins": {"flannel": other}})).plugin
    assert plugin is not None
    assert (plugin.unit, plugin.daemon, plugin.tunnel) == (None, ("kube-system", "kube-flannel"), "flannel.1")


def test_a_product_that_says_nothing_of_plugins_is_not_held_to_what_is_packaged() -> None:
    silent = guests.OURS.model_copy(update={"network_plugins": None})
    assert guests.expected(leaves=silent).plugin is None
    assert guests.expected().plugin is not None


def test_a_projects_own_file_describes_its_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "cluster_network_plugins:\n  flannel: {gateway: subnet, tunnel: flannel.1}\n"
    (tmp_path / "matrix").mkdir()
    (tmp_path / "matrix" / "network_plugins.yml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("VMATRIX_PROJECT", str(tmp_path))
    plugin = guests.expected(leaves=guests.OURS.model_copy(update={"network_plugins": None})).plugin
    assert plugin is not None
    assert (plugin.unit, plugin.tunnel) == (None, "flannel.1")


def test_images_have_a_system() -> None:
    assert system_of("debian-13") == ("debian", "13")
    assert system_of("ubuntu-24.04-cloudimg") == ("ubuntu", "24.04")
    assert system_of("of-nobody") is None


@pytest.mark.parametrize(("version", "upstream", "minor"), versions.TABLE)
def test_a_distributions_release_is_upstreams(version: str, upstream: str, minor: str) -> None:
    assert upstream_of(version).removeprefix("v") == upstream
    assert minor_of(version) == minor_of(upstream) == minor
    assert upstream_of(f"containerd://{version}, {version}") == f"containerd://{upstream_of(version)}, " + upstream_of(
        version
    )


@pytest.mark.parametrize("text", ["", "1.31", "none", "404: no such page", "10.0.0.1:5000/kube-proxy"])
def test_what_is_not_a_release_stays(text: str) -> None:
    assert upstream_of(text) == text


@pytest.mark.parametrize(("version", "upstream", "minor"), versions.TABLE)
def test_versions_compare_as_upstreams(version: str, upstream: str, minor: str) -> None:
    assert minor
    assert differs_upstream("node", "kubelet", f"v{version.removeprefix('v')}", f"v{upstream}") == []
    assert differs_upstream("node", "kubelet", f"v{upstream}", f"v{version.removeprefix('v')}") == []
    assert len(differs_upstream("node", "kubelet", version, "v1.28.0")) == 1


def test_earlier_minors_are_those_of_other_phases() -> None:
    found = guests.guest()
    versions = ("1.35.4", "1.36.3", None)
    phases = tuple(
        Phase("deploy", vars={"cluster_kubernetes_version": version} if version else {}) for version in versions
    )
    upgraded = replace(
        found, environment=replace(found.environment, cell=replace(found.environment.cell, phases=phases))
    )
    assert expected_of(found, guests.OURS).earlier_minors == frozenset()
    assert expected_of(upgraded, guests.OURS).earlier_minors == frozenset({"1.35"})
    nobodys = replace(upgraded, environment=replace(upgraded.environment, namespace=""))
    assert expected_of(nobodys, guests.OURS).earlier_minors is None


@pytest.mark.parametrize(
    ("number", "expected"), [(0, "1.34.4"), (1, "1.34.4"), (2, "1.34.4"), (3, "1.36.3"), (4, "1.36.3")]
)
def test_workers_that_stay_behind_have_the_version_of_the_last_phase_that_upgraded_them(
    number: int, expected: str
) -> None:
    rows = (("1.34.4", None), ("1.35.4", False), ("1.36.3", False), ("1.36.3", True), ("1.37.2", False))
    left = [{} if workers is None else {"cluster_upgrade_workers": workers} for _, workers in rows]
    phases = tuple(
        Phase("upgrade", vars={"cluster_kubernetes_version": row[0], **own})
        for row, own in zip(rows, left, strict=True)
    )
    found = guests.guest()
    cell = replace(found.environment.cell, phases=phases)
    given = {**found.expected, **phases[number].vars}
    guest = expected_of(replace(found, environment=replace(found.environment, cell=cell), expected=given), guests.OURS)
    assert {name: guest.kubernetes_of(name) for name in guest.workers} == dict.fromkeys(guest.workers, expected)
    assert {guest.kubernetes_of(name) for name in guest.control_plane} == {rows[number][0]}


@pytest.mark.parametrize(("number", "kubelets", "emulated"), [
    (0, "1.35.4", "1.35"), (1, "1.35.4", "1.35"), (2, "1.35.4", "1.35"), (3, "1.35.4", "1.35"), (4, "1.36.3", "1.36"),
])  # fmt: skip
def test_an_upgrade_that_may_be_taken_back_leaves_every_kubelet(number: int, kubelets: str, emulated: str) -> None:
    rows = (("1.35.4", False), ("1.36.3", True), ("1.35.4", False), ("1.36.3", True), ("1.36.3", False))
    phases = tuple(
        Phase(
            "upgrade",
            vars={
                "cluster_kubernetes_version": version,
                "cluster_pause_version": f"of {version}",
                "cluster_coredns_version": f"of {version}",
                "cluster_etcd_version": f"of {version}",
                "cluster_emulate_previous_minor": emulates,
            },
        )
        for version, emulates in rows
    )
    found = guests.guest()
    cell = replace(found.environment.cell, phases=phases)
    given = {**found.expected, **phases[number].vars}
    guest = expected_of(replace(found, environment=replace(found.environment, cell=cell), expected=given), guests.OURS)
    assert {guest.kubernetes_of(name) for name in guest.nodes} == {kubelets}
    assert {guest.variables_of(name)["cluster_pause_version"] for name in guest.nodes} == {f"of {kubelets}"}
    assert (guest.kube_proxy_version, guest.coredns) == (kubelets, f"of {kubelets}")
    assert guest.etcd_version == f"of {kubelets}"
    assert (guest.kubernetes, guest.emulated_minor) == (rows[number][0], emulated)
    assert customised_flags("kube-scheduler", guest.variables).get("emulated-version") == (
        emulated if rows[number][1] else None
    )


def test_former_control_planes_are_those_of_other_phases() -> None:
    found = guests.guest()
    environment = found.environment
    third = replace(environment.cell.machines[0], name="cp-2")
    less = replace(environment.cell, machines=(*environment.cell.machines, third))
    after = replace(found, environment=replace(environment, cell=less))
    assert expected_of(found, guests.OURS).former_control_planes == frozenset()
    assert expected_of(after, guests.OURS).former_control_planes == frozenset({"cp-2"})
    nobodys = replace(after, environment=replace(after.environment, namespace=""))
    assert expected_of(nobodys, guests.OURS).former_control_planes is None


@pytest.mark.parametrize(("vni", "tunnel"), [("", "flannel.1"), ("1", "flannel.1"), ("107", "flannel.107")])
def test_a_tunnel_has_the_number_of_its_cluster_in_its_name(vni: str, tunnel: str) -> None:
    found = of_vni(plugins()["flannel"], vni)
    assert found is not None
    assert (found.tunnel, found.ipv6_tunnel) == (tunnel, tunnel.replace("flannel.", "flannel-v6."))
    assert f"ip -d link show {tunnel} " in found.look
    routes = plugins()["routes"]
    assert of_vni(routes, "107") == routes
    assert of_vni(None, "107") is None

"""What the playbooks are given for a ClusterDeployment; no field and no variable is forgotten on either side."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from harness.operator.api.addons import BUILT_IN
from harness.operator.api.cluster import AppliedState
from harness.operator.api.clusterdeployment import ClusterDeploymentSpec
from harness.operator.api.components import Components
from harness.operator.api.rules import COMPONENTS, EXTERNAL_CA, HOSTS, SETTINGS, VERSIONS, variable
from harness.operator.decide.variables import (
    FILE,
    OF_THE_EXECUTOR,
    KnownReleases,
    as_text,
    component,
    load_releases,
    of_matrix,
    part_of,
    path_of,
)
from harness.paths import packaged_dir
from tests.unit.operator.api import objects
from tests.unit.operator.decide.wishes import wish

# Fields that are no variables of the playbooks.
OTHERS = {
    "paused",
    "approval",
    "adopt",
    "endpoint",
    "isolation",
    "health",
    "loadBalancer",
    "machineSets",
    "access",
    "variables",
    "playbooks",
    "jobs",
    "deletion",
    "addons",
    "components",
    "authority",
}
PLAYBOOKS = packaged_dir() / "playbooks" / "group_vars" / "all" / "main.yml"


def test_every_field_of_the_spec_is_a_variable_or_known_not_to_be() -> None:
    roots = {field.path.split(".")[0] for field in SETTINGS}
    names = {field.alias or name for name, field in ClusterDeploymentSpec.model_fields.items()}
    assert names == roots | OTHERS


def test_every_component_and_add_on_of_the_spec_has_a_version() -> None:
    assert set(COMPONENTS) == {field.alias or name for name, field in Components.model_fields.items()}
    own = {field.path for field in VERSIONS if field.path.startswith("addons[")}
    assert own == {f"addons[{name}].version" for name in BUILT_IN}


def test_an_add_on_with_manifests_is_nothing_to_the_playbooks() -> None:
    one = wish(addons=[{"name": "shop", "manifests": {"configMap": "shop"}}])
    assert one.digests == wish().digests


def test_every_variable_is_one_that_the_playbooks_know() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(PLAYBOOKS.parent.glob("*.yml")))
    known = set(re.findall(r"cluster_\w+", text))
    assert {field.variable for field in (*SETTINGS, *VERSIONS)} | {HOSTS, *OF_THE_EXECUTOR} <= known


def test_every_variable_that_the_matrix_sets_can_be_set_by_a_field() -> None:
    axes = yaml.safe_load((packaged_dir() / "matrix" / "axes.yml").read_text(encoding="utf-8"))["axes"]
    given = {name for axis in axes for value in axis["values"] for name in value.get("vars", {})}
    given -= {"cluster_encryption_key"}  # a secret; spec.variables has it, as docs/hardening.md says
    given -= {EXTERNAL_CA}  # of spec.authority.keysOnMachines, which says the opposite
    given |= yaml.safe_load((packaged_dir() / "matrix" / "product.yml").read_text(encoding="utf-8"))["product"][
        "vars"
    ].keys()
    assert given <= {field.variable for field in (*SETTINGS, *VERSIONS)}


def test_a_variable_of_no_field_is_a_setting() -> None:
    assert (part_of("cluster_api_port"), path_of("cluster_api_port")) == ("settings", "spec.variables.cluster_api_port")
    assert (part_of("cluster_hosts"), path_of("cluster_hosts")) == ("machines", "spec.machineSets")


def test_what_was_applied_has_a_digest_of_each_part() -> None:
    one = wish()
    assert set(one.digests) == {"version", "source", "settings", "machines", "addons", "clients"}
    assert AppliedState(digests=dict(one.digests)).digests == one.digests


def test_the_least_object_sets_everything_that_the_playbooks_require() -> None:
    made = wish().variables
    assert made["cluster_hosts"] == [
        {"name": "cp-0", "address": "192.0.2.10"},
        {"name": "w-1", "address": "192.0.2.11"},
        {"name": "w-2", "address": "192.0.2.12"},
    ]
    assert made["cluster_kubernetes_version"] == "1.36.3"
    assert (made["cluster_etcd_version"], made["cluster_coredns_version"]) == ("3.6.8", "1.14.2")
    assert (made["cluster_pause_version"], made["cluster_runc_version"]) == ("3.10.2", "1.5.2")
    assert (made["cluster_containerd_version"], made["cluster_cni_plugins_version"]) == ("2.4.2", "1.9.1")
    assert made["cluster_flannel_version"] == "0.28.4"
    assert made["cluster_mirror_url"] == objects.SOURCE["mirror"]
    assert made["cluster_image_registry"] == objects.SOURCE["registry"]
    assert made["cluster_artifact_source"] == "mirror"
    assert (made["cluster_pod_cidr"], made["cluster_service_cidr"]) == ("10.243.0.0/16", "10.95.0.0/16")


def test_what_only_the_executor_knows_is_left_to_it() -> None:
    assert not made_of(variables=dict.fromkeys(OF_THE_EXECUTOR, "/tmp/mine")).keys() & set(OF_THE_EXECUTOR)


def made_of(**spec: Any) -> dict[str, Any]:
    """Return the variables of a spec."""
    return dict(wish(**spec).variables)


@pytest.mark.parametrize(
    ("spec", "name", "value"),
    [
        ({"network": {"vxlan": {"port": 8473}}}, "cluster_vxlan_port", 8473),
        ({"network": {"vxlan": {"mtu": 1400}}}, "cluster_vxlan_mtu", 1400),
        ({"network": {"dnsDomain": "a.b"}}, "cluster_dns_domain", "a.b"),
        ({"network": {"plugin": "routes"}}, "cluster_network_plugin", "routes"),
        ({"runtime": {"config": {"a": 1}}}, "cluster_containerd_config", {"a": 1}),
        ({"runtime": {"version": "1.7.35"}}, "cluster_containerd_version", "1.7.35"),
        ({"components": {"cni-plugins": "1.8.0"}}, "cluster_cni_plugins_version", "1.8.0"),
        ({"etcd": {"extraArgs": {"a": "1"}}}, "cluster_etcd_extra_args", {"a": "1"}),
        ({"kubernetes": {"apiServer": {"extraArgs": {"v": "2"}}}}, "cluster_apiserver_extra_args", {"v": "2"}),
        (
            {"kubernetes": {"controllerManager": {"extraArgs": {"v": "2"}}}},
            "cluster_controller_manager_extra_args",
            {"v": "2"},
        ),
        ({"kubernetes": {"scheduler": {"extraArgs": {"v": "2"}}}}, "cluster_scheduler_extra_args", {"v": "2"}),
        ({"kubernetes": {"kubeProxy": {"mode": "iptables"}}}, "cluster_kube_proxy_mode", "iptables"),
        ({"kubernetes": {"kubeProxy": {"config": {"a": 1}}}}, "cluster_kube_proxy_config", {"a": 1}),
        ({"addons": [{"name": "metrics-server"}]}, "cluster_metrics_server_version", "0.9.0"),
        ({"addons": [{"name": "metrics-server", "version": "1.0"}]}, "cluster_metrics_server_version", "1.0"),
        ({"source": {"type": "Upstream", "registry": "r/x"}}, "cluster_artifact_source", "upstream"),
        (
            {"loadBalancer": {"type": "Service"}},
            "cluster_api_extra_sans",
            ["guest-api", "guest-api.default", "guest-api.default.svc"],
        ),
        ({"maintenance": {"drainTimeoutSeconds": 60}}, "cluster_drain_timeout", 60),
        ({"variables": {"cluster_api_port": 6446}}, "cluster_api_port", 6446),
        ({"runtime": {"name": "crio"}}, "cluster_crio_version", "1.34.0"),
        ({"runtime": {"name": "crio", "version": "1.34.7"}}, "cluster_crio_version", "1.34.7"),
        ({"runtime": {"name": "crio"}}, "cluster_crictl_version", "1.36.0"),
        ({"runtime": {"name": "crio", "config": {"a": 1}}}, "cluster_crio_config", {"a": 1}),
        ({"runtime": {"name": "crio", "withinLimits": True}}, "cluster_crio_within_limits", True),
        (
            {"runtime": {"registries": [{"name": "a:5000", "server": "http://b:5000"}, {"name": "c"}]}},
            "cluster_registries",
            [{"name": "a:5000", "server": "http://b:5000"}, {"name": "c"}],
        ),
        ({"runtime": {"withinLimits": True}}, "cluster_containerd_restrict_oom_score_adj", True),
        ({"network": {"ipFamilies": ["IPv4", "IPv6"]}}, "cluster_ipv6_pod_cidr", "fd10:243::/56"),
        ({"network": {"ipFamilies": ["IPv4", "IPv6"]}}, "cluster_pod_cidr", "10.243.0.0/16"),
        ({"network": {"ipFamilies": ["IPv6"]}}, "cluster_service_cidr", "fd10:95::/112"),
        (
            {"kubernetes": {"kubeadm": {"timeouts": {"discovery": "9m"}}}},
            "cluster_kubeadm_timeouts",
            {"discovery": "9m"},
        ),
        (
            {"certificates": {"extraSans": ["a.example"]}, "loadBalancer": {"type": "Service"}},
            "cluster_api_extra_sans",
            ["guest-api", "guest-api.default", "guest-api.default.svc", "a.example"],
        ),
        ({"variables": {"cluster_vxlan_port": 4789}}, "cluster_vxlan_port", 4789),
        ({"endpoint": {"type": "VIP", "address": "192.0.2.50"}}, "cluster_api_virtual_address", "192.0.2.50"),
        ({"endpoint": {"type": "VIP", "address": "192.0.2.50"}}, "cluster_api_extra_sans", ["192.0.2.50"]),
    ],
)
def test_a_field_becomes_a_variable(spec: dict[str, Any], name: str, value: Any) -> None:
    assert made_of(**spec)[name] == value


GATES = {"SidecarContainers": True, "AllAlpha": False}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            (f"cluster_{name}_extra_args", {"feature-gates": "AllAlpha=false,SidecarContainers=true", "v": "2"})
            for name in ("apiserver", "controller_manager", "scheduler")
        ),
        ("cluster_kubelet_config", {"featureGates": GATES, "v": 2}),
        ("cluster_kube_proxy_config", {"featureGates": GATES, "v": 2}),
    ],
)
def test_feature_gates_are_those_of_every_component_beside_its_settings(name: str, value: Any) -> None:
    flags = {key: {"extraArgs": {"v": "2"}} for key in ("apiServer", "controllerManager", "scheduler")}
    files = {key: {"config": {"v": 2}} for key in ("kubelet", "kubeProxy")}
    assert made_of(kubernetes={"featureGates": GATES, **flags, **files})[name] == value


def test_a_runtime_has_nothing_of_the_other_one() -> None:
    made = made_of(runtime={"name": "crio", "systemdCgroup": True, "config": {"a": 1}})
    assert not any("containerd" in name for name in made)
    assert not any("crio" in name for name in made_of() if name != "cluster_container_runtime")


def test_without_a_service_the_certificate_has_no_further_names() -> None:
    assert "cluster_api_extra_sans" not in made_of()


def test_versions_of_what_is_not_deployed_are_not_given() -> None:
    assert "cluster_flannel_version" not in made_of(network={"plugin": "routes"})
    assert "cluster_metrics_server_version" not in made_of()
    assert "cluster_mirror_url" not in made_of(source={"type": "Upstream"})


def test_mappings_of_variables_and_fields_go_side_by_side() -> None:
    kubelet = {"config": {"maxPods": 50, "evictionHard": {"memory.available": "5%"}}}
    own = {"cluster_kubelet_config": {"failSwapOn": False, "evictionHard": {"nodefs.available": "1%"}}}
    assert made_of(kubernetes={"kubelet": kubelet}, variables=own)["cluster_kubelet_config"] == {
        "maxPods": 50,
        "failSwapOn": False,
        "evictionHard": {"memory.available": "5%", "nodefs.available": "1%"},
    }


def test_an_unknown_version_of_kubernetes_leaves_out_what_belongs_to_it() -> None:
    made = made_of(version="1.99.0")
    assert "cluster_etcd_version" not in made
    assert made["cluster_containerd_version"] == "2.4.2"


TABLE = KnownReleases(
    kubernetes={"1.34.4": {"etcd": "3.6.5"}, "1.35.4": {"etcd": "3.6.6"}, "1.36.3": {"etcd": "3.6.8"}},
    minors={"1.35.4": "1.34.4", "1.36.3": "1.35.4"},
    defaults={"runc": "1.5.2"},
)


@pytest.mark.parametrize(
    ("running", "wanted", "hops"),
    [
        ("1.36.1", "1.36.3", ("1.36.3",)),
        ("1.35.4", "1.36.3", ("1.36.3",)),
        ("1.35.9", "1.36.3", ("1.36.3",)),  # the matrix starts from 1.35.4, and any patch of a minor will do
        ("1.34.4", "1.36.3", ("1.35.4", "1.36.3")),
        ("1.33.1", "1.36.3", ("1.34.4", "1.35.4", "1.36.3")),
        ("1.32.0", "1.36.3", ()),  # nothing of 1.33 is known
        ("1.36.3", "1.36.3", ()),
        ("1.36.3", "1.35.4", ()),
        ("1.9.1", "1.36.3", ()),
        ("1.9.1", "1.10.0", ("1.10.0",)),  # numbers, not letters
    ],
)
def test_an_upgrade_goes_one_minor_at_a_time(running: str, wanted: str, hops: tuple[str, ...]) -> None:
    assert TABLE.hops(running, wanted) == hops


def test_an_unknown_version_of_kubernetes_has_the_defaults_alone() -> None:
    assert TABLE.components("1.36.3") == {"runc": "1.5.2", "etcd": "3.6.8"}
    assert TABLE.components("1.99.0") == {"runc": "1.5.2"}


def test_the_table_that_ships_knows_every_component_of_every_release() -> None:
    table = load_releases()
    assert table.kubernetes
    for version in table.kubernetes:
        assert {"etcd", "coredns", "pause", "containerd", "runc", "cni-plugins"} <= table.components(version).keys()


def test_a_component_and_its_variable_lead_to_each_other() -> None:
    assert variable("cni-plugins") == "cluster_cni_plugins_version"
    assert component("cluster_cni_plugins_version") == "cni-plugins"


def test_the_file_is_what_the_matrix_gives() -> None:
    wanted = as_text(of_matrix())
    assert FILE.read_text(encoding="utf-8") == wanted, "run `vmatrix operator releases --write`"


def test_the_file_has_every_release_of_the_matrix_and_its_latest_components() -> None:
    axes = yaml.safe_load((packaged_dir() / "matrix" / "axes.yml").read_text(encoding="utf-8"))["axes"]
    values = {axis["name"]: axis["values"] for axis in axes}
    table = load_releases()
    assert list(table.kubernetes) == [value["id"] for value in values["kubernetes"]]
    for value in values["kubernetes"]:
        assert table.kubernetes[value["id"]]["etcd"] == value["vars"]["cluster_etcd_version"]
    assert table.defaults["containerd"] == values["runtime"][-1]["vars"]["cluster_containerd_version"]


@pytest.mark.parametrize(
    ("given", "value"), [({}, None), ({"keysOnMachines": True}, None), ({"keysOnMachines": False}, True)]
)
def test_keys_are_on_machines_unless_the_object_says_otherwise(given: dict[str, bool], value: bool | None) -> None:
    made = wish(authority=given)
    assert made.variables.get(EXTERNAL_CA) is value
    assert (part_of(EXTERNAL_CA), path_of(EXTERNAL_CA)) == ("settings", "spec.authority.keysOnMachines")

"""What is refused before any machine is touched: groups, addresses, networks, versions, settings, a mirror."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from harness import paths
from tests.unit.playbooks.mirror import serving
from tests.unit.playbooks.playbook_files import PLAYBOOKS, load, module
from tests.unit.playbooks.test_templates import answered

AXES = {axis["name"]: axis["values"] for axis in load(paths.project_dir() / "matrix" / "axes.yml")["axes"]}
KUBEADM = {value["id"]: value.get("vars", {}) for value in AXES["kubeadm"]}
(HARDENED,) = (value["vars"] for value in AXES["profile"] if value["id"] == "hardened")
PLUGINS = load(PLAYBOOKS / "group_vars/all/network_plugins.yml")["cluster_network_plugins"]
OWN = {name: value for name, value in HARDENED.items() if name != "cluster_kubelet_config"}  # has no cgroup driver
OWN_TEMPLATES = "../../tests/unit/playbooks"


@cache
def usual() -> dict[str, Any]:
    """Return the settings of a request that asks for nothing special, and what each may be."""
    given = {"roles": str(PLAYBOOKS / "roles"), "render": {"all": f"{OWN_TEMPLATES}/preflight.json.j2"}}
    return dict(json.loads(answered("cp1-w1", given)["all"]))


def errors(settings: dict[str, Any]) -> list[str]:
    """Return what the module validate_argument_spec says."""
    spec = {name: usual()["spec"][name] for name in settings.keys() & usual()["spec"].keys()}
    given = {name: settings[name] for name in spec}
    return [str(each) for each in ArgumentSpecValidator(spec).validate(given).error_messages]


def mistakes(inventory: Path | str = "cp1-w1", **given: Any) -> list[str]:
    """Return what preflight says of a request; an inventory is a file, or a topology's."""
    settings = {**usual()["settings"], **{name: given[name] for name in given.keys() & usual()["spec"].keys()}}
    known = {"roles": str(PLAYBOOKS / "roles"), "render": {"all": f"{OWN_TEMPLATES}/mistakes.json.j2"}}
    seen = {"preflight_request": settings, "preflight_errors": errors(settings)}
    answer = answered(inventory, {**known, **given, **seen})
    return [str(each) for each in json.loads(answer["all"])]


@pytest.mark.parametrize("given", [{}, OWN, *KUBEADM.values()], ids=["usual", "hardened", *KUBEADM])
def test_what_is_tested_has_no_mistake(given: dict[str, Any]) -> None:
    assert mistakes(**given) == []


def test_every_setting_is_compared_and_has_its_kind() -> None:
    compared = load(PLAYBOOKS / "roles/preflight/vars/main.yml")["preflight_spec"]
    files = [load(path) for path in sorted((PLAYBOOKS / "group_vars/all").glob("*.yml"))]
    given = {name for file in files for name in file}
    settings = [name for file in files for key in SETTINGS for name in file.get(key, {})]
    assert len(settings) > 25
    assert set(settings) == set(compared)
    assert set(settings) <= given


SETTINGS = (
    *("cluster_hardening", "cluster_customised", "cluster_extra_volumes", "cluster_network_settings"),
    "cluster_etcd_settings",
)


def key(size: int) -> str:
    return base64.b64encode(b"k" * size).decode()


GCM = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
SHARE = {"name": "share", "hostPath": "/usr/share", "mountPath": "/srv/share"}
PROBE = {"spec": {"containers": [{"name": "etcd", "startupProbe": {"failureThreshold": 60}}]}}
VOLUMES = "cluster_scheduler_extra_volumes"


def jwt(url: str = "https://a", audiences: Any = ("b",)) -> dict[str, Any]:
    """Return an authenticator of tokens."""
    issuer = {"url": url, "audiences": audiences if isinstance(audiences, str) else list(audiences)}
    return {"issuer": issuer, "claimMappings": {"username": {"claim": "sub", "prefix": ""}}}


NO_USERS: tuple[Any, ...] = ({}, None, "sub", [], {"prefix": "a"}, {"claim": ""}, {"claim": {}}, {"expression": ""})
REGISTRIES = "cluster_registries"
BALANCED = "cluster_load_balancer_addresses"
# A variable, a value that it may not have, and what is said of it.
WRONG: tuple[tuple[str, Any, str], ...] = (
    ("cluster_kubernetes_version", "1.33.1", "1.33.1 is unknown: choose one of 1.34.x, 1.35.x"),
    ("cluster_etcd_version", "latest", "cluster_etcd_version 'latest' is not a version such as 1.36.3"),
    ("cluster_etcd_version", "3.5.1", "cluster_etcd_version 3.5.1 is unknown: choose one of 3.6.x"),
    ("cluster_containerd_version", "1.6.1", "cluster_containerd_version 1.6.1 is unknown: choose one of 1.7.x"),
    ("cluster_kube_proxy_mode", "ipvs", "value of cluster_kube_proxy_mode must be one of: iptables, nftables"),
    ("cluster_network_plugin", "cilium", "value of cluster_network_plugin must be one of: flannel, routes"),
    ("cluster_artifact_source", "elsewhere", "value of cluster_artifact_source must be one of: mirror, upstream"),
    ("cluster_timeout_scale", 0, "cluster_timeout_scale is 0: set it to a number above 0"),
    ("cluster_encryption_key", key(16), "not base64 of exactly 32 bytes: make one with head -c 32 /dev/urandom"),
    ("cluster_encryption_key", key(33), "not base64 of exactly 32 bytes"),
    ("cluster_encryption_key", "not base64!", "not base64 of exactly 32 bytes"),
    ("cluster_audit_policy", {"omitStages": []}, "cluster_audit_policy has no rules: give at least one"),
    ("cluster_audit_policy", {"rules": None}, "cluster_audit_policy has no rules"),
    (REGISTRIES, "registry.example", "cluster_registries is a text: give a list"),
    (REGISTRIES, [{}], "missing required arguments: name found in cluster_registries"),
    (REGISTRIES, [{"name": "http://a"}], "cluster_registries: http://a is not what names of images begin with"),
    (REGISTRIES, [{"name": "a/b"}], "cluster_registries: a/b is not what names of images begin with"),
    (REGISTRIES, [{"name": "a", "server": "a:5000"}], "cluster_registries: server a:5000: write http://HOST:PORT or"),
    (REGISTRIES, [{"name": "a", "ca": "/etc/ca.crt"}], "cluster_registries: ca of a is not a certificate: write it"),
    (REGISTRIES, [{"name": "a"}, {"name": "a"}], "cluster_registries: a, a: name each once, and not"),
    ("cluster_jwt_authenticators", [{}], "one without issuer.url: give each an issuer.url that begins with https://"),
    ("cluster_jwt_authenticators", [jwt("http://a")], "cluster_jwt_authenticators: http://a: give each"),
    ("cluster_jwt_authenticators", [jwt(audiences=[])], "https://a: give each an issuer.url"),
    ("cluster_jwt_authenticators", [jwt(audiences="b")], "https://a: give each an issuer.url"),
    ("cluster_jwt_authenticators", [{"issuer": jwt()["issuer"]}], "claimMappings.username with a claim"),
    (
        "cluster_jwt_authenticators",
        [{**jwt(f"https://{place}"), "claimMappings": {"username": user}} for place, user in enumerate(NO_USERS)],
        f"{', '.join(f'https://{place}' for place in range(len(NO_USERS)))}: give each an issuer.url",
    ),
    ("cluster_jwt_authenticators", [jwt(), jwt(audiences=["c"])], "https://a, https://a: name every issuer.url once"),
    ("cluster_tls_minimum", "VersionTLS11", "cluster_tls_minimum must be one of: , VersionTLS12, VersionTLS13"),
    ("cluster_tls_cipher_suites", [GCM, "TLS_RSA_WITH_AES_128_CBC_SHA"], "no match for: TLS_RSA_WITH_AES_128_CBC_SHA"),
    ("cluster_tls_cipher_suites", ["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"], "cluster_tls_cipher_suites: HTTP/2 needs"),
    ("cluster_tls_cipher_suites", GCM, "cluster_tls_cipher_suites is a text: give a list"),
    ("cluster_pod_security", {"enforce": "strict"}, "value of enforce must be one of: privileged, baseline, restricte"),
    ("cluster_pod_security", {"enforced": "baseline"}, "cluster_pod_security.enforced. Supported parameters include"),
    ("cluster_pod_security", {"exempt": "a"}, "cluster_pod_security.exempt is a text"),
    ("cluster_event_rate_limits", [{"type": "Pod", "qps": 1, "burst": 1}], "value of type must be one of: Server"),
    ("cluster_event_rate_limits", [{"type": "User", "qps": 1}], "missing required arguments: burst found in cluster_e"),
    ("cluster_event_rate_limits", [{"type": "User", "qps": 0, "burst": 1}], "_limits: 0: use whole numbers above 0"),
    ("cluster_event_rate_limits", [{"type": "User", "qps": "5", "burst": 1}], '_limits: "5": use whole numbers above'),
    ("cluster_admission_plugins", ["EventRateLimit"], "set cluster_event_rate_limits"),
    ("cluster_kubeadm_patches", {"kubelet0.json": {"a": 1}}, "kubelet0.json names no patch of kubeadm's: use a name s"),
    ("cluster_kubeadm_patches", {"kube-apiserver1+jsonpatch.json": {"a": 1}}, "names no patch of kubeadm's"),
    ("cluster_kubeadm_patches", {"etcd0+json.json": {"op": "add"}}, "etcd0+json.json is not a list of operations"),
    ("cluster_kubeadm_patches", {"etcd0+json.json": [{"path": "/a"}]}, "etcd0+json.json is not a list of operations: "),
    ("cluster_kubeadm_patches", {"etcd2+json.json": None}, "etcd2+json.json is not a list of operations"),
    ("cluster_kubeadm_patches", {"etcd0.json": [1]}, "etcd0.json is not a mapping: give the part of the object"),
    ("cluster_kubeadm_patches", {"etcd0.json": {}}, "etcd0.json is not a mapping"),
    ("cluster_kubeadm_patches", {"etcd1.json": PROBE}, "etcd1.json has a startupProbe with a failureThreshold and wit"),
    ("cluster_scheduler_config", ["profiles"], "cluster_scheduler_config"),
    ("cluster_scheduler_config", {"apiVersion": "kubescheduler.config.k8s.io/v1beta3"}, "use kubescheduler.config.k8s"),
    ("cluster_kubeadm_skip_phases", "preflight", "cluster_kubeadm_skip_phases is a text: give a list"),
    ("cluster_kubeadm_skip_phases", ["certs"], "one or more of: addon/kube-proxy, preflight, show-join-command"),
    ("cluster_kubeadm_skip_phases", ["addon/kube-proxy"], "flannel does not replace kube-proxy: use one whose entry"),
    ("cluster_certificates_folder", "/var/lib/pki", "give a folder of its own below /etc/kubernetes, such as"),
    ("cluster_certificates_folder", "/etc/kubernetes", "give a folder of its own"),
    ("cluster_certificates_folder", "/etc/kubernetes/manifests", "give a folder of its own"),
    ("cluster_certificates_folder", "/etc/kubernetes/../ssl", "give a folder of its own"),
    ("cluster_certificates_folder", "/etc/kubernetes/./manifests", "give a folder of its own"),
    ("cluster_certificates_validity", "180d", "is '180d': use whole hours, such as 4392h"),
    ("cluster_certificates_validity", "2160h", "would renew at every run; set cluster_certificates_renew_before_days"),
    ("cluster_certificates_validity", "90000h", "is 90000h, longer than CAs are valid (87600h)"),
    ("cluster_vxlan_vni", 0, "cluster_vxlan_vni is '0': use a number from 1 to 16777215"),
    ("cluster_vxlan_vni", 16777216, "use a number from 1 to 16777215"),
    ("cluster_vxlan_vni", "seven", "cluster_vxlan_vni"),
    ("cluster_vxlan_port", 70000, "cluster_vxlan_port is '70000': use a number from 1 to 65535"),
    ("cluster_authority_path", "/nowhere", "is '/nowhere' and lacks ca.crt, ca.key, etcd/ca.crt, etcd/ca.key, front-"),
    ("cluster_external_ca", "yes", "cluster_external_ca is 'yes': use true or false"),
    (VOLUMES, SHARE, VOLUMES),
    (VOLUMES, ["/usr/share"], "unable to convert to dict"),
    (VOLUMES, [{**SHARE, "path": "/"}], f"{VOLUMES}.path. Supported parameters include: hostPath, mountPath"),
    (VOLUMES, [{**SHARE, "name": "A_b"}], f"{VOLUMES}: name A_b: use lower-case letters, digits and '-'"),
    (VOLUMES, [{**SHARE, "name": "k8s-certs"}], f"{VOLUMES}: name k8s-certs, which a pod has already: give it"),
    (VOLUMES, [{**SHARE, "hostPath": "share"}], f"{VOLUMES}: hostPath share and mountPath /srv/share: give "),
    (VOLUMES, [{**SHARE, "mountPath": "/a/../b"}], "give absolute paths"),
    (VOLUMES, [{**SHARE, "readOnly": "yes"}], f"{VOLUMES}: readOnly is a text: use true or false"),
    (VOLUMES, [{**SHARE, "pathType": "Dir"}], "value of pathType must be one of: , DirectoryOrCreate"),
    (VOLUMES, [SHARE, {**SHARE, "mountPath": "/b"}], f"the same name ({VOLUMES} share, {VOLUMES} share): give each"),
    (VOLUMES, [SHARE, {**SHARE, "name": "b"}], f"the same mountPath ({VOLUMES} /srv/share, {VOLUMES}"),
    ("cluster_service_cidr", "10.243.128.0/20", "cluster_pod_cidr 10.243.0.0/16 overlaps cluster_service_cidr"),
)  # fmt: skip


@cache
def said_of(turn: int, *, kind: bool) -> str:
    """Return what is said of one wrong value of each variable, of its kind or of its meaning: all of it at once."""
    given = {name: value for name, value, _ in rows(turn, kind=kind)}
    return "\n".join(mistakes(**given))


def rows(turn: int, *, kind: bool) -> Iterator[tuple[str, Any, str]]:
    """Yield a row of each variable that has as many."""
    seen: Counter[str] = Counter()
    for name, value, words in WRONG:
        text = isinstance(value, str) and usual()["spec"].get(name, {}).get("type") in ("list", "dict")
        if kind is (text or bool(errors({name: value}))):
            if seen[name] == turn:
                yield name, value, words
            seen[name] += 1


@pytest.mark.parametrize("kind", [True, False])
@pytest.mark.parametrize("turn", range(8))
def test_wrong_values_are_said_at_once_with_their_remedies(turn: int, kind: bool) -> None:
    said = said_of(turn, kind=kind)
    lines = said.splitlines()
    unnamed = [row for row in rows(turn, kind=kind) if not any(row[0] in line and row[2] in line for line in lines)]
    assert unnamed == [], said
    assert not any(str(value) in said for name, value, _ in WRONG if name == "cluster_encryption_key")


def test_every_row_has_its_turn() -> None:
    assert sum(len([*rows(turn, kind=kind)]) for turn in range(8) for kind in (True, False)) == len(WRONG)


# Settings that are right by themselves
TOGETHER: tuple[tuple[dict[str, Any], str], ...] = (
    ({"cluster_ca_validity": "8000h"}, "cluster_certificates_validity is 8760h, longer than CAs are valid (8000h)"),
    ({"cluster_tls_minimum": "VersionTLS13", "cluster_tls_cipher_suites": [GCM]}, "TLS 1.3 leaves no choice"),
    (
        {"cluster_profiling": False, "cluster_apiserver_extra_args": {"profiling": "true"}},
        "args: profiling also follows",
    ),
    (
        {"cluster_anonymous_health_only": True, "cluster_apiserver_extra_args": {"anonymous-auth": "false"}},
        "anonymous-auth and cluster_anonymous_health_only exclude each other",
    ),
    (
        {"cluster_jwt_authenticators": [jwt()], "cluster_apiserver_extra_args": {"oidc-issuer-url": "https://a"}},
        "oidc-issuer-url and cluster_jwt_authenticators exclude each other",
    ),
    (
        {"cluster_scheduler_config": {"parallelism": 4}, "cluster_scheduler_extra_args": {"config": "/a"}},
        "cluster_scheduler_extra_args: config also follows from cluster_scheduler_config: use one of both",
    ),
    (
        {"cluster_external_ca": True, "cluster_kubelet_certificates_signed": True},
        "cluster_kubelet_certificates_signed: use one of both",
    ),
)


@pytest.mark.parametrize(("given", "words"), TOGETHER, ids=[words[:30] for _, words in TOGETHER])
def test_settings_that_exclude_each_other_are_refused(given: dict[str, Any], words: str) -> None:
    (said,) = mistakes(**given)
    assert words in said


@pytest.mark.parametrize("topology", ["cp3-w1", "cp2-etcd3-w1"])
def test_an_external_ca_signs_for_all_control_planes_and_for_any_etcd(topology: str) -> None:
    assert mistakes(topology, cluster_external_ca=True) == []


def test_kube_proxy_may_be_left_out_where_the_plugin_takes_its_place() -> None:
    plugins = {"flannel": {**PLUGINS["flannel"], "replaces_kube_proxy": True}}
    assert mistakes(cluster_kubeadm_skip_phases=["addon/kube-proxy"], cluster_network_plugins=plugins) == []


@pytest.mark.parametrize("probe", [{"failureThreshold": 60, "periodSeconds": 10}, {"timeoutSeconds": 9}, None])
def test_a_probe_of_which_all_is_said_is_no_mistake(probe: dict[str, int] | None) -> None:
    patch = {"spec": {"containers": [{"name": "etcd", "startupProbe": probe}]}}
    assert mistakes(cluster_kubeadm_patches={"etcd1.json": patch}) == []


@pytest.mark.parametrize(
    ("groups", "there", "words"),
    [
        ({"control_plane": "cp", "etcd": "cp", "node": "cp"}, False, ""),
        ({"control_plane": "cp cp-1 cp-2", "etcd": "cp-2 cp cp-1", "node": "w"}, False, ""),
        ({"control_plane": "cp cp-1", "etcd": "etcd-0 etcd-1 etcd-2", "node": "w"}, False, ""),
        ({"control_plane": "cp cp-1", "etcd": "cp cp-1"}, False, "use one or three control planes, or three separate"),
        ({"control_plane": "cp cp-1", "etcd": "cp cp-1"}, True, ""),
        ({"control_plane": "cp", "etcd": "cp", "workers": "w"}, False, "machine w is in none of the groups control_pl"),
        ({"control_plane": "cp", "etcd": "cp", "workers": "w"}, False, "also has workers): add it to one of them"),
        ({"control_plane": "cp cp-1", "etcd": "cp-1 etcd-0 etcd-1"}, False, "shares cp-1 with control_plane but is no"),
        ({"etcd": "cp", "node": "w cp"}, False, "the group control_plane is empty: add at least one machine"),
        ({"control_plane": "cp", "node": "w"}, False, "the group etcd is empty"),
    ],
)  # fmt: skip
def test_groups_are_those_of_a_topology(groups: dict[str, str], there: bool, words: str, tmp_path: Path) -> None:
    children = {name: {"hosts": dict.fromkeys(machines.split())} for name, machines in groups.items()}
    inventory, kubeconfig = tmp_path / "hosts.yml", tmp_path / "kubeconfig"
    inventory.write_text(yaml.safe_dump({"all": {"children": children}}), encoding="utf-8")
    if there:
        kubeconfig.touch()
    given: dict[str, Any] = {"cluster_kubeconfig_path": str(kubeconfig)}
    if "control_plane" not in groups:
        given |= {"cluster_first_control_plane": "cp"}
    said = mistakes(inventory, **given)
    assert bool(said) is bool(words)
    assert not words or any(words in each for each in said), said


# --- addresses ----------------------------------------------------------------------------------------------------
ADDRESSES = module("filter_plugins/address_mistakes.py")
HOSTS = [{"name": "cp", "address": "10.0.0.2"}, {"name": "w", "address": "10.0.0.3"}]
RIGHT = {
    "cluster_pod_cidr": "10.243.0.0/16",
    "cluster_service_cidr": "10.95.0.0/16",
    "cluster_ipv6_pod_cidr": "",
    "cluster_ipv6_service_cidr": "",
    BALANCED: None,
    "outside": ["10.0.0.1", "mirror.example"],
}
SHORT = {"pods": "cluster_pod_cidr", "services": "cluster_service_cidr", "balanced": BALANCED}
SHORT |= {"virtual": "cluster_api_virtual_address"}
SHORT |= {"pods6": "cluster_ipv6_pod_cidr", "services6": "cluster_ipv6_service_cidr"}
DUAL = {
    "pods6": "fd10:243::/56",
    "services6": "fd10:95::/112",
    "hosts": [{**host, "ipv6_address": f"fd00::{number}"} for number, host in enumerate(HOSTS, 2)],
}
ALONE = {
    "pods": "fd10:243::/56",
    "services": "fd10:95::/112",
    "hosts": [{**host, "address": f"fd00::{number}"} for number, host in enumerate(HOSTS, 2)],
    "outside": ["fd00::9"],
}


def of_addresses(hosts: list[dict[str, Any]] = HOSTS, **given: Any) -> list[str]:
    named = {SHORT.get(name, name): value for name, value in given.items()}
    return list(ADDRESSES.address_mistakes({**RIGHT, **named}, hosts, ["cp", "w"], 2))


@pytest.mark.parametrize("given", [{}, DUAL, ALONE, {"balanced": ["10.0.0.240-10.0.0.250", "10.0.1.0/28"]}])
def test_addresses_that_are_apart_from_each_other_pass(given: dict[str, Any]) -> None:
    assert of_addresses(**given) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"hosts": HOSTS[:1]}, "machine w is not in cluster_hosts: add its name and address"),
        ({"hosts": [HOSTS[0], {"name": "w", "address": "10.0.0.2"}]}, "gives 10.0.0.2 to 2 machines: every machine ne"),
        ({"hosts": [HOSTS[0], {"name": "w", "address": "worker"}]}, "cluster_hosts: worker is not an IP address"),
        ({"hosts": [*HOSTS, HOSTS[1]]}, "cluster_hosts names w 2 times"),
        ({**ALONE, "hosts": HOSTS}, "the address 10.0.0.2 of machine cp is not of IPv6, as cluster_pod_cidr is: let b"),
        ({"hosts": ALONE["hosts"]}, "the address fd00::2 of machine cp is not of IPv4"),
        ({**DUAL, "hosts": HOSTS}, "machine cp needs an ipv6_address, and has none: add it, or leave cluster_ipv6_pod"),
        ({**DUAL, "hosts": [{**HOSTS[0], "ipv6_address": "10.0.0.9"}, DUAL["hosts"][1]]}, "and has 10.0.0.9: add it"),
        ({**DUAL, "hosts": [{**host, "ipv6_address": "fd00::2"} for host in HOSTS]}, "gives fd00::2 to 2 machines"),
        ({"services": "10.243.128.0/20"}, "cluster_pod_cidr 10.243.0.0/16 overlaps cluster_service_cidr"),
        ({"pods": "10.0.0.0/8"}, "contains 10.0.0.2, the address of machine cp"),
        ({"services": "10.0.0.0/24"}, "contains 10.0.0.1, the address of the mirror"),
        ({"pods": "10.243.0.0/24"}, "has no /24 for each of 2 nodes"),
        ({"pods": "10.243.0.1/16"}, "has host bits set: use a network such as 10.243.0.0/16"),
        ({"pods": "pods"}, "use a network such as"),
        ({"pods": "fd10:243::/56"}, "cluster_service_cidr 10.95.0.0/16 are of two IP families: use one"),
        ({**ALONE, "pods": "fd10:243::/64"}, "cluster_pod_cidr fd10:243::/64 has no /64 for each of 2 nodes"),
        ({**ALONE, "pods": "fd10::/32"}, "cluster_pod_cidr fd10::/32 is too large: kubeadm takes a /48 at most"),
        ({**ALONE, "services": "fd10:95::/64"}, "fd10:95::/64 is too large: the API server takes a /108 at most"),
        ({**ALONE, "pods": "fd00::/56"}, "contains fd00::2, the address of machine cp"),
        ({**DUAL, "pods": "fd20:243::/56"}, "cluster_pod_cidr fd20:243::/56 is of IPv6, and so is cluster_ipv6_pod"),
        ({**DUAL, "pods6": "10.9.0.0/16"}, "cluster_ipv6_pod_cidr 10.9.0.0/16 is not of IPv6"),
        ({**DUAL, "services6": ""}, "cluster_ipv6_pod_cidr is set and cluster_ipv6_service_cidr is not: set both, or "),
        ({**DUAL, "pods6": ""}, "cluster_ipv6_service_cidr is set and cluster_ipv6_pod_cidr is not"),
        ({**DUAL, "services6": "fd10:243:0:7::/112"}, "fd10:243::/56 overlaps cluster_ipv6_service_cidr"),
        ({**DUAL, "pods6": "fd10:243::/64"}, "cluster_ipv6_pod_cidr fd10:243::/64 has no /64 for each of 2"),
        ({**DUAL, "pods6": "fd10::/32"}, "too large: kubeadm takes a /48 at most"),
        ({**DUAL, "services": "10.95.0.0/30"}, "cluster_service_cidr 10.95.0.0/30 has 4 addresses, and kubeadm asks f"),
        ({**DUAL, "services6": "fd10:95::/64"}, "too large: the API server takes a /108 at most"),
        ({**DUAL, "pods6": "fd00:0:0::/56"}, "contains fd00::2, the address of machine cp"),
        ({"balanced": []}, "cluster_metallb_version is set and cluster_load_balancer_addresses is not: give"),
        ({"balanced": ["10.0.0.300-10.0.0.301"]}, "cluster_load_balancer_addresses[0] 10.0.0.300-10.0.0.301 ("),
        ({"balanced": ["10.0.0.9-10.0.0.8"]}, "10.0.0.9 is above 10.0.0.8): give addresses as"),
        ({"balanced": ["10.0.0.241/28"]}, "has host bits set"),
        ({"balanced": ["fd00::/120"]}, "cluster_load_balancer_addresses[0] fd00::/120"),
        ({"virtual": "10.0.0.3"}, "10.0.0.3 is the address of machine w: use one that nobody has"),
        ({"virtual": "10.0.0.1"}, "is the address of the mirror"),
        ({"virtual": "10.243.0.9"}, "is in cluster_pod_cidr 10.243.0.0/16: use a free address"),
        ({"virtual": "10.95.0.9"}, "is in cluster_service_cidr 10.95.0.0/16"),
        ({"virtual": "fd00::9"}, "is not of IPv4, as cluster_pod_cidr is"),
        (
            {"virtual": "10.0.0.50", "balanced": ["10.0.0.48/29"]},
            "[0] 10.0.0.48/29 contains 10.0.0.50, the address of the API servers: choose addresses",
        ),
        ({"virtual": "10.0.0"}, "is not an IP address: use one such as 192.0.2.50"),
        ({"balanced": ["10.0.0.3-10.0.0.9"]}, "contains 10.0.0.3, the address of machine w: choose addresses"),
        ({"balanced": ["10.0.0.1-10.0.0.1"]}, "contains 10.0.0.1, the address of the mirror"),
        ({"balanced": ["10.243.9.0/24"]}, "overlaps cluster_pod_cidr 10.243.0.0/16: choose addresses"),
        ({"balanced": ["10.94.0.0-10.96.0.0"]}, "overlaps cluster_service_cidr 10.95.0.0/16"),
        ({"balanced": ["10.0.0.240/28", "10.0.0.250-10.0.1.9"]}, "[1] 10.0.0.250-10.0.1.9 overlaps 10.0.0.240/28"),
    ],
)  # fmt: skip
def test_addresses_that_cannot_come_right_are_refused(given: dict[str, Any], said: str) -> None:
    found = of_addresses(**given)
    assert any(said in each for each in found), found


def test_a_machine_of_etcd_alone_needs_no_network_for_pods() -> None:
    assert mistakes("cp2-etcd3-w1", cluster_pod_cidr="10.243.0.0/22") == []
    assert "has no /24 for each of 3 nodes" in mistakes("cp2-etcd3-w1", cluster_pod_cidr="10.243.0.0/23")[0]


def test_addresses_of_load_balancers_are_looked_at_with_metallb_alone() -> None:
    assert mistakes(cluster_load_balancer_addresses=["10.0.0.2/32"]) == []
    (said,) = mistakes(cluster_load_balancer_addresses=["10.0.0.2/32"], cluster_metallb_version="0.16.1")
    assert "the address of machine cp" in said
    assert "is a text" in mistakes(cluster_load_balancer_addresses="10.0.0.240/28")[0]


# --- mirror -------------------------------------------------------------------------------------------------------
SERVED = module("library/urls_served.py")


@pytest.fixture
def mirror() -> Iterator[str]:
    """Serve one file."""
    with serving(lambda path: path == "/bin/kubelet", b"one") as address:
        yield f"http://{address}"


def test_what_a_mirror_has_is_no_mistake(mirror: str) -> None:
    assert SERVED.ask(f"{mirror}/bin/kubelet", "") == ("", "")
    assert SERVED.ask(f"{mirror}/bin/kubelet", hashlib.sha256(b"one").hexdigest()) == ("", "")


def test_what_a_mirror_lacks_or_serves_wrongly_is_said(mirror: str) -> None:
    missing, silent = SERVED.ask(f"{mirror}/bin/kubeadm", "")
    assert re.fullmatch(f"{mirror}/bin/kubeadm: 404 .*", missing)
    assert silent == ""
    wrong, _ = SERVED.ask(f"{mirror}/bin/kubelet", "0" * 64)
    assert f"checksum {hashlib.sha256(b'one').hexdigest()}, but cluster_checksums has {'0' * 64}" in wrong


def test_a_mirror_that_does_not_answer_is_left_to_the_machines() -> None:
    missing, silent = SERVED.ask("http://127.0.0.1:9/bin/kubelet", "")
    assert (missing, silent.partition(": ")[0]) == ("", "http://127.0.0.1:9")

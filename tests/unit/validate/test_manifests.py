"""Objects of add-ons are compared with their manifests whole: every field, what is missing and what is too much."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BadInput
from harness.spec.models.leaves import ClusterLeaves
from harness.validate import manifests
from harness.validate.findings import Unjudged
from harness.validate.manifests import KINDS, deviations, installed, place_of, strange_objects
from harness.validate.variables import Patch
from tests.unit.validate import foreign, guests
from tests.unit.validate.guests import Json
from tests.unit.validate.installed import InstalledApi, expected, of
from tests.unit.validate.kept import Objects

KNOWN = {place_of(key): one.content for key, one in (installed(expected()) or {}).items()}
WHOLE = [name for name, one in KNOWN.items() if not name.startswith(("Role kube-system/kubeadm:kubeadm-certs",))]
REQUIRED = {place_of(key) for key, one in (installed(expected()) or {}).items() if not one.optional}


def test_the_recorded_cell_is_as_its_manifests_have_it() -> None:
    assert strange_objects(InstalledApi(), expected()) == []
    assert strange_objects(InstalledApi(), expected(), rights=True) == []


def test_every_object_that_is_gone_is_found() -> None:
    found = [*strange_objects(InstalledApi(lambda objects: objects.clear()), expected())]
    found += strange_objects(InstalledApi(lambda objects: objects.clear()), expected(), rights=True)
    assert {one.where for one in found} == REQUIRED
    assert {one.expected for one in found} == {"to exist, as the product installs it"}


def leaves(content: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where the values of an object are."""
    if isinstance(content, Mapping) and content:
        for key, value in content.items():
            yield from leaves(value, (*at, key))
    elif isinstance(content, list) and content:
        for number, value in enumerate(content):
            yield from leaves(value, (*at, number))
    else:
        yield at


def changed(content: Json, at: tuple[Any, ...], *, gone: bool) -> Json:
    """Return an object with another value at a place, or with none there."""
    made = copy.deepcopy(content)
    there: Any = made
    for key in at[:-1]:
        there = there[key]
    if gone:
        del there[at[-1]]
    else:
        value = there[at[-1]]
        if isinstance(value, bool):
            there[at[-1]] = not value
        else:
            there[at[-1]] = value + 1 if isinstance(value, int) else f"{value}x" if isinstance(value, str) else ["x"]
    return made


def judged(at: tuple[Any, ...]) -> bool:
    """Tell whether a place is one that is compared: an object's identity is by what it is found."""
    return at[0] not in ("apiVersion", "kind") and at[:2] not in (("metadata", "name"), ("metadata", "namespace"))


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_every_other_value_is_found(name: str) -> None:
    content = KNOWN[name]
    places = [at for at in leaves(content) if judged(at) and "apiGroup" not in at]
    missed = [at for at in places if not deviations(content, changed(content, at, gone=False))]
    assert missed == []


# What the API gives by itself, so that a manifest that says it, and an object that does not, are alike.
GIVEN = {"IfNotPresent", "TCP", "HTTP", "RollingUpdate", "", "Exists"}


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_every_value_that_is_gone_is_found(name: str) -> None:
    content = KNOWN[name]
    for at in leaves(content):
        if not judged(at) or at[0] in ("roleRef", "subjects"):  # which the API takes whole
            continue
        less = changed(content, at, gone=True)
        value: Any = content
        for key in at:
            value = value[key]
        if not deviations(content, less):
            assert value in (None, False, "", [], {}), at


# What a manifest leaves open, and what is never right in an add-on: where in the object, and what somebody adds.
POD = ("spec", "template", "spec")
ADDED: tuple[tuple[str, tuple[str, ...], Any], ...] = (
    ("Deployment", ("spec", "paused"), True),
    ("Deployment", ("spec", "minReadySeconds"), 600),
    ("Deployment", ("spec", "revisionHistoryLimit"), 0),
    ("Deployment", ("spec", "progressDeadlineSeconds"), 5),
    ("DaemonSet", ("spec", "minReadySeconds"), 600),
    ("DaemonSet", ("spec", "updateStrategy"), {"type": "OnDelete"}),
    *(
        (kind, (*POD, field), value)
        for kind in ("Deployment", "DaemonSet")
        for field, value in (
            ("hostPID", True),
            ("hostIPC", True),
            ("shareProcessNamespace", True),
            ("activeDeadlineSeconds", 60),
            ("nodeName", "cp-0"),
            ("schedulerName", "none"),
            ("runtimeClassName", "slow"),
            ("dnsConfig", {"nameservers": ["192.0.2.1"]}),
            ("hostAliases", [{"ip": "192.0.2.1", "hostnames": ["kubernetes"]}]),
            ("topologySpreadConstraints", [{"maxSkew": 1}]),
            ("terminationGracePeriodSeconds", 0),
            ("restartPolicy", "Never"),
            ("initContainers", [{"name": "wait", "image": "wait:1"}]),
            ("securityContext", {"runAsUser": 1}),
            ("automountServiceAccountToken", False),
            ("imagePullSecrets", [{"name": "none"}]),
            ("preemptionPolicy", "Never"),
            ("readinessGates", [{"conditionType": "never"}]),
            ("enableServiceLinks", True),
            ("overhead", {"cpu": "4"}),
        )
    ),
    *(
        ("Service", ("spec", field), value)
        for field, value in (
            ("sessionAffinity", "ClientIP"),
            ("internalTrafficPolicy", "Local"),
            ("publishNotReadyAddresses", True),
            ("externalIPs", ["192.0.2.1"]),
            ("type", "NodePort"),
            ("trafficDistribution", "PreferClose"),
            ("ipFamilyPolicy", "PreferDualStack"),
            ("loadBalancerClass", "none"),
        )
    ),
    ("ServiceAccount", ("automountServiceAccountToken",), False),
    ("StorageClass", ("mountOptions",), ["ro"]),
    ("StorageClass", ("allowVolumeExpansion",), True),
    ("ConfigMap", ("immutable",), True),
    ("ClusterRole", ("aggregationRule",), {"clusterRoleSelectors": [{}]}),
    ("Namespace", ("metadata", "labels"), {"pod-security.kubernetes.io/enforce": "restricted"}),
    ("APIService", ("spec", "caBundle2"), "x"),
)


@pytest.mark.parametrize(
    ("kind", "at", "value"), ADDED, ids=lambda one: ".".join(one) if isinstance(one, tuple) else None
)
def test_what_nobody_asked_for_is_found_in_every_object_of_a_kind(kind: str, at: tuple[str, ...], value: Any) -> None:
    objects = [content for name, content in KNOWN.items() if name.startswith(f"{kind} ")]
    assert objects
    for content in objects:
        made = copy.deepcopy(content)
        there: Any = made
        for key in at[:-1]:
            there = there.setdefault(key, {})
        there[at[-1]] = value
        (found, *_) = deviations(content, made)
        text = str(found.mismatch("it"))
        assert at[-1] in text or "labels" in text


CONTAINER: tuple[tuple[str, Any], ...] = (
    ("command", ["/bin/true"]),
    ("envFrom", [{"secretRef": {"name": "more"}}]),
    ("lifecycle", {"preStop": {"exec": {"command": ["sleep", "600"]}}}),
    ("imagePullPolicy", "Always"),
    ("startupProbe", {"exec": {"command": ["false"]}}),
    ("stdin", True),
    ("terminationMessagePolicy", "FallbackToLogsOnError"),
    ("workingDir", "/tmp"),
    ("resizePolicy", [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]),
)


@pytest.mark.parametrize(("field", "value"), CONTAINER)
def test_what_nobody_asked_for_is_found_in_every_container(field: str, value: Any) -> None:
    for name, content in KNOWN.items():
        if name.startswith(("Deployment ", "DaemonSet ")):
            made = copy.deepcopy(content)
            made["spec"]["template"]["spec"]["containers"][0][field] = value
            assert any(field in one.mismatch(name).expected for one in deviations(content, made)), name


def coredns(objects: Objects) -> Json:
    """Return CoreDNS's one container."""
    found: Json = of(objects, "deployments", "coredns")["spec"]["template"]["spec"]["containers"][0]
    return found


def test_a_limit_of_memory_is_explained() -> None:
    api = InstalledApi(lambda objects: coredns(objects)["resources"]["limits"].update(memory="40Mi"))
    assert [str(one) for one in strange_objects(api, expected())] == [
        "Deployment kube-system/coredns: expected spec.template.spec.containers[coredns].resources.limits.memory "
        "170Mi; saw 40Mi"
    ]


def test_the_dns_service_is_what_is_wrong_where_it_has_another_address() -> None:
    def move(objects: Objects) -> None:
        of(objects, "services", "kube-dns")["spec"].update(clusterIP="10.95.7.7", clusterIPs=["10.95.7.7"])

    assert [str(one) for one in strange_objects(InstalledApi(move), expected())] == [
        "Service kube-system/kube-dns: expected spec.clusterIP 10.95.0.10; saw 10.95.7.7"
    ]


def test_a_restart_of_pods_is_no_other_setting() -> None:
    def annotate(objects: Objects, **more: str) -> None:
        annotations = {manifests.RESTARTED: "2026-01-02T03:04:05Z", **more}
        of(objects, "deployments", "coredns")["spec"]["template"]["metadata"]["annotations"] = annotations

    assert strange_objects(InstalledApi(annotate), expected()) == []
    assert len(strange_objects(InstalledApi(lambda objects: annotate(objects, other="x")), expected())) == 1


PATCHED = {"cluster_kubeadm_patches": {"corednsdeployment1+merge.yaml": {"spec": {"minReadySeconds": 3}}}}


def test_what_a_patch_of_the_cell_changes_is_not_compared() -> None:
    def patch(objects: Objects) -> None:
        of(objects, "deployments", "coredns")["spec"]["minReadySeconds"] = 3

    assert strange_objects(InstalledApi(patch), expected(PATCHED)) == []
    assert len(strange_objects(InstalledApi(patch), expected())) == 1


def test_patches_name_the_fields_that_they_change() -> None:
    replaced = Patch("a+json.json", "json", [{"op": "replace", "path": "/spec/replicas", "value": 3}])
    merged = Patch("b", "strategic", {"spec": {"template": {"spec": {"containers": [{"name": "x", "image": "y"}]}}}})
    assert [*manifests.changed_by(replaced)] == ["replicas"]
    assert [*manifests.changed_by(merged)] == ["name", "image"]


def test_a_product_that_does_not_say_what_it_installs_is_not_judged() -> None:
    found = strange_objects(InstalledApi(), foreign.expected(foreign.SAID))
    assert [type(one) for one in found] == [Unjudged]


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ({"file": "no/such.yml"}, "no/such.yml"),
        ({"file": "matrix/manifests/kubeadm.yml.j2", "vars": {"images": "nothing.at.all"}}, "cannot be rendered"),
        ({"file": "matrix/manifests/kubeadm.yml.j2", "when": "]"}, "cannot be rendered"),
    ],
)
def test_a_manifest_that_cannot_be_had_is_refused(manifest: Json, words: str) -> None:
    leaves = ClusterLeaves.model_validate({"manifests": [manifest]})
    with pytest.raises(BadInput, match=words):
        installed(guests.expected(leaves=leaves))


def test_an_object_of_a_kind_that_nobody_reads_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.yml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: one}\n", encoding="utf-8")
    monkeypatch.setattr(manifests, "project_dir", lambda: tmp_path)
    leaves = ClusterLeaves.model_validate({"manifests": [{"file": "own.yml"}]})
    with pytest.raises(BadInput, match="kind Pod"):
        installed(guests.expected(leaves=leaves))


ALL_ADD_ONS = {
    "cluster_metallb_version": "1.2.3",
    "cluster_load_balancer_addresses": ["192.0.2.0/28"],
    "cluster_kube_router_version": "1.2.3",
    "cluster_traefik_version": "1.2.3",
}


@pytest.mark.parametrize(
    "more",
    [
        ALL_ADD_ONS,
        {"cluster_network_plugin": "routes"},
        {"cluster_ipv6_pod_cidr": "fd00:1::/56", "cluster_ipv6_service_cidr": "fd00:2::/112"},
        {"cluster_pod_cidr": "fd00:1::/56", "cluster_service_cidr": "fd00:2::/112"},
        {"cluster_kubeadm_skip_phases": ["addon/kube-proxy"]},
        {"cluster_kubernetes_version": "1.34.4"},
        {"cluster_kubernetes_version": "1.37.2"},
    ],
    ids=lambda more: next(iter(more)),
)
def test_every_add_on_and_layout_renders_to_objects_of_known_kinds(more: Json) -> None:
    found = installed(expected(more))
    assert found
    assert {kind for kind, _, _ in found} <= set(KINDS)

"""An installation of KubeVirt and CDI is whole or it is not; our part keeps apart what the cluster itself runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from harness.embedded.node.registration import RUNS_PODS
from harness.infra.host import status
from harness.infra.host.instance import HostInstance
from harness.infra.host.layout import InstanceRecord, Layout, boot_id
from harness.infra.host.layout import save_record as save_instance
from harness.infra.host.status import State
from harness.infra.kind import cluster, kvm
from harness.infra.kind.cluster import Installed, KindLimits, Made
from harness.infra.kind.kubevirt import CONTROL_PLANE, _staying, keep_apart, planned
from harness.infra.kind.kvm import KvmChoice
from harness.infra.kind.releases import Release, Releases
from harness.kube.client import ApiFailure, Cluster, Listing
from harness.kube.resources import CDI, DEPLOYMENT, KUBEVIRT, NODE, STORAGE_CLASS, VMI, Resource
from harness.providers import kind as providing
from harness.providers.kind import KindProvider
from harness.spec.lines import Document

Json = dict[str, Any]
WHOLE = Installed("v1.9.0", "v1.66.0", ("kubevirt/virt-operator", "cdi/cdi-operator"))
MADE = Made("release", "1.36.3", installed=WHOLE)
UNFINISHED = "the installation of KubeVirt and CDI did not come to its end"


def operand(version: str, phase: str = "Deployed", **conditions: str) -> Json:
    told = {"Available": "True", "Degraded": "False", **conditions}
    listed = [{"type": name, "status": value, "message": "so it is"} for name, value in told.items()]
    return {"status": {"phase": phase, "observedKubeVirtVersion": version, "conditions": listed}}


class Api:
    """A cluster in which both are installed, of which a test takes something away."""

    def __init__(self) -> None:
        self.served: dict[Resource, list[Json]] = {KUBEVIRT: [operand("v1.9.0")], CDI: [operand("v1.66.0")], VMI: []}
        self.deployments = {name: {"status": {"availableReplicas": 1}} for name in WHOLE.operators}

    def list(self, resource: Resource, *_: object) -> Listing:
        if resource not in self.served:
            raise ApiFailure(404, "NotFound", "there is no such kind", [], request="GET /")
        return Listing(self.served[resource], "1")

    def get(self, resource: Resource, name: str, namespace: str) -> Json | None:
        assert resource == DEPLOYMENT
        return self.deployments.get(f"{namespace}/{name}")


def changed(change: Callable[[Api], object]) -> Api:
    api = Api()
    change(api)
    return api


CASES: list[tuple[str, Callable[[Api], object], Made, str]] = [
    ("killed before the definitions", lambda a: a.served.clear(), MADE, "KubeVirt is not installed: the API does not"),
    ("only KubeVirt's are there", lambda a: a.served.pop(CDI), MADE, "CDI is not installed: the API does not serve"),
    ("killed before the object", lambda a: a.served[KUBEVIRT].clear(), MADE, "no KubeVirt object exists"),
    ("killed while it is deployed", lambda _: None, Made("release", "1.36.3"), UNFINISHED),
    (
        "still deploying",
        lambda a: a.served.update({CDI: [operand("", "Deploying")]}),
        MADE,
        "CDI is Deploying, not Deployed",
    ),
    (
        "not available",
        lambda a: a.served.update({KUBEVIRT: [operand("v1.9.0", Available="False")]}),
        MADE,
        "KubeVirt is not Available: so it is",
    ),
    (
        "degraded",
        lambda a: a.served.update({CDI: [operand("v1.66.0", Degraded="True")]}),
        MADE,
        "CDI is Degraded: so it is",
    ),
    (
        "another version",
        lambda a: a.served.update({KUBEVIRT: [operand("v1.8.0")]}),
        MADE,
        "KubeVirt is v1.8.0, not v1.9.0",
    ),
    (
        "an operator is gone",
        lambda a: a.deployments.pop("cdi/cdi-operator"),
        MADE,
        "the Deployment cdi/cdi-operator does not exist",
    ),
    (
        "an operator does not run",
        lambda a: a.deployments.update({"kubevirt/virt-operator": {"status": {}}}),
        MADE,
        "no pod of the Deployment kubevirt/virt-operator is available",
    ),
]


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KindProvider:
    """Return an instance of which every program runs, its node included; what its API says is up to the test."""
    layout = Layout("a", tmp_path / "a")
    save_instance(layout, InstanceRecord("a", 0, "", boot_id()))
    made = KindProvider.__new__(KindProvider)
    made.host, made.layout = HostInstance.__new__(HostInstance), layout
    made.host.layout = layout
    node = type("Node", (), {"pids": lambda _: {"n": os.getpid()}, "node": "n", "nodes": ("n",), "name": "a"})()
    monkeypatch.setattr(made, "_cluster_if_any", lambda: node)

    monkeypatch.setattr(made.host, "status", lambda _: status.look(layout, ()))
    return made


@pytest.mark.parametrize(("change", "made", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_half_an_installation_is_broken_and_named(
    provider: KindProvider,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Api], object],
    made: Made,
    expected: str,
) -> None:
    cluster.save_record(provider.layout, made)
    monkeypatch.setattr(Cluster, "from_kubeconfig", lambda _: changed(change))

    seen = provider.status()

    assert seen.state is State.BROKEN
    assert [line for line in seen.problems if line.startswith(expected)], seen.problems


def test_a_whole_one_is_up(provider: KindProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.save_record(provider.layout, MADE)
    monkeypatch.setattr(Cluster, "from_kubeconfig", lambda _: Api())

    seen = provider.status()

    assert (seen.state, seen.problems, seen.kubevirt, seen.cdi) == (State.UP, (), "Deployed", "Deployed")


def test_an_api_that_does_not_answer_is_broken(provider: KindProvider) -> None:
    cluster.save_record(provider.layout, MADE)

    seen = provider.status()

    assert seen.state is State.BROKEN
    assert seen.problems[0].startswith("the API does not answer: ")


def test_an_instance_without_its_record_is_broken(provider: KindProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cluster, "from_kubeconfig", lambda _: Api())

    assert provider.status().problems == ("its record kind.json is missing or unreadable",)


def test_the_operators_are_read_from_the_manifests(tmp_path: Path) -> None:
    operator = (
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n---\n"
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: o, namespace: NS}\n"
    )
    release = {"operator": {"url": "http://h/NS.yaml"}, "resource": {"url": "http://h/cr.yaml"}}
    kubevirt = Release.model_validate({**release, "version": "v1"})
    cdi = Release.model_validate({**release, "version": "v2"})
    releases = Releases(tmp_path, kubevirt, cdi, Document(tmp_path, {}, {}))

    found = planned(releases, {"http://h/NS.yaml": operator})

    assert found == Installed("v1", "v2", ("NS/o", "NS/o"))


class Killed(Exception):
    """What ends an installation in its midst."""


@pytest.fixture
def installing(provider: KindProvider, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Installed | None]]:
    """Return what installs, and returns what the record says meanwhile."""
    node = type("Node", (), {"engine": type("E", (), {"inside": print}), "node": "n", "nodes": ("n",)})()
    provider.kind = type("Kind", (), {"say": lambda *_: None, "limits": KindLimits()})()
    monkeypatch.setattr(providing, "_releases", lambda _: None)
    monkeypatch.setattr(providing, "fetch", lambda _: {})
    monkeypatch.setattr(kvm, "choose_kvm", lambda _: KvmChoice(False, "it is emulated"))
    monkeypatch.setattr(kvm, "hide", lambda _: False)
    monkeypatch.setattr(Cluster, "from_kubeconfig", lambda _: Api())

    def install(made: Made, planned: Installed, *, killed: bool = False) -> list[Installed | None]:
        seen: list[Installed | None] = []

        def do(*_: object, **__: object) -> None:
            seen.append(loaded(provider).installed)
            if killed:
                raise Killed

        cluster.save_record(provider.layout, made)
        monkeypatch.setattr(providing, "install", do)
        monkeypatch.setattr(providing, "planned", lambda *_: planned)
        with suppress(Killed):
            provider._install(node, made)
        return seen

    return install


def loaded(provider: KindProvider) -> Made:
    found = cluster.load_record(provider.layout)
    assert found is not None
    return found


def test_an_installation_that_is_killed_stays_broken_until_one_ends(
    provider: KindProvider, installing: Callable[..., list[Installed | None]]
) -> None:
    assert installing(Made("release", "1.36.3"), WHOLE, killed=True) == [None]
    assert provider.status().state is State.BROKEN

    assert installing(loaded(provider), WHOLE) == [None]
    assert (provider.status().state, loaded(provider).installed) == (State.UP, WHOLE)


def test_another_release_is_not_whole_before_it_is_installed(
    provider: KindProvider, installing: Callable[..., list[Installed | None]]
) -> None:
    newer = replace(WHOLE, cdi="v1.67.0")

    assert installing(MADE, newer, killed=True) == [None]
    assert UNFINISHED in provider.status().problems


def test_the_same_release_stays_whole_while_a_run_looks_at_it(
    provider: KindProvider, installing: Callable[..., list[Installed | None]]
) -> None:
    assert installing(MADE, WHOLE, killed=True) == [WHOLE]
    assert provider.status().state is State.UP


DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}


class AttachedApi:
    """A kind cluster right after its creation."""

    def __init__(self) -> None:
        self.patched: dict[str, Json] = {}
        template: Json = {"spec": {"template": {"spec": {"containers": []}}}}
        coredns = {"metadata": {"name": "coredns", "namespace": "kube-system"}, **template}
        standard = {"metadata": {"name": "standard", "annotations": DEFAULT}, "provisioner": "rancher.io/local-path"}
        self.objects: dict[Resource, list[Json]] = {DEPLOYMENT: [coredns], STORAGE_CLASS: [standard]}

    def list(self, resource: Resource) -> Listing:
        return Listing(self.objects.get(resource, []), "1")

    def merge(self, resource: Resource, name: str, patch: Json, namespace: str | None = None) -> None:
        self.patched[f"{resource.kind} {name}"] = patch


def kept_apart() -> AttachedApi:
    api = AttachedApi()
    keep_apart(cast(Cluster, api), ["node", "worker"])
    return api


@pytest.mark.parametrize("node", ["node", "worker"])
def test_the_nodes_that_are_containers_run_pods_and_say_so(node: str) -> None:
    patch = kept_apart().patched[f"{NODE.kind} {node}"]
    assert patch == {"metadata": {"labels": {RUNS_PODS: "true"}}, "spec": {"unschedulable": None}}


def test_the_clusters_own_pods_name_those_nodes_once_they_have_their_label() -> None:
    api = kept_apart()
    patch = api.patched["Deployment coredns"]
    assert patch["spec"]["template"]["spec"] == {"nodeSelector": {RUNS_PODS: "true"}}
    assert list(api.patched).index("Node worker") < list(api.patched).index("Deployment coredns")


@pytest.mark.parametrize("label", [CONTROL_PLANE, RUNS_PODS])
def test_pods_that_stay_there_already_are_left_as_they_are(label: str) -> None:
    spec = {"template": {"spec": {"nodeSelector": {label: ""}}}}
    assert _staying({"spec": spec}) is None


def test_machines_disks_alone_have_the_default_class() -> None:
    patch = kept_apart().patched["StorageClass standard"]
    assert set(patch["metadata"]["annotations"].values()) == {"false"}

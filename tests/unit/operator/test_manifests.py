"""Manifests: what is committed is what is generated, every manager has its account, and the samples are accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.operator.api.crds import files as definitions
from harness.operator.api.delivery import read_delivery
from harness.operator.api.machine import DeclaredMachine
from harness.operator.api.rules import read
from harness.operator.context import GIT_PORT
from harness.operator.decide.etcdclusters import read_etcd
from harness.operator.decide.variables import load_releases
from harness.operator.manager import HEALTH_PORT
from harness.operator.manifests import DELIVERERS, GRACE_SECONDS, USERS, Installation, committed, deployment, text
from harness.operator.registry import END_SECONDS, NAMES
from tests.unit.pages import ROOT

FOLDER = ROOT / "deploy" / "operator"
WRITE = "vmatrix operator manifests --write"


def test_what_is_committed_is_what_is_generated() -> None:
    for name, content in committed().items():
        assert (FOLDER / name).read_text(encoding="utf-8") == content, WRITE
    there = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()}
    samples = {name for name in there if name.startswith("samples/")}
    assert there - samples == {
        *committed(),
        *(f"crds/{name}" for name in definitions()),
        "Dockerfile",
        "namespace.yml",
        "grafana.json",
        "alerts.yaml",
    }, WRITE


def test_a_folder_for_kustomize_names_all_its_files() -> None:
    named = yaml.safe_load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    there = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.yml")}
    assert sorted(named) == sorted(name for name in there if not name.startswith("samples/"))


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("webhooks", [False, True])
def test_every_role_is_bound_to_accounts_that_managers_have(apart: bool, everywhere: bool, webhooks: bool) -> None:
    objects = Installation("ns", "host/vmatrix:1", apart=apart, everywhere=everywhere, webhooks=webhooks).objects()
    names = {
        kind: {o["metadata"]["name"] for o in objects if o["kind"] == kind} for kind in {o["kind"] for o in objects}
    }
    bindings = [o for o in objects if o["kind"] in ("RoleBinding", "ClusterRoleBinding")]
    bound = {(b["roleRef"]["kind"], b["roleRef"]["name"]) for b in bindings}
    of_people = {("ClusterRole", name) for name in (USERS, DELIVERERS)} if webhooks else set()
    roles = {(kind, name) for kind in ("Role", "ClusterRole") for name in names[kind]}
    assert roles - bound == of_people, "an administrator gives it to people"
    assert bound <= roles
    accounts = {subject["name"] for b in bindings for subject in b["subjects"]}
    deployments = [o for o in objects if o["kind"] == "Deployment"]
    assert (
        accounts
        == names["ServiceAccount"]
        == {o["spec"]["template"]["spec"]["serviceAccountName"] for o in deployments}
    )
    assert len(deployments) == (len(NAMES) + webhooks if apart else 1)
    assert {"ns"} == {s["namespace"] for b in bindings for s in b["subjects"]}
    inside = [o for o in objects if o["metadata"].get("namespace")]
    assert {o["metadata"]["namespace"] for o in inside} == {"ns"}
    assert ("Role" in {o["kind"] for o in objects if "clusterinstall" in o["metadata"]["name"]}) is not everywhere


def test_apart_a_controller_has_its_own_rights_alone() -> None:
    objects = Installation("ns", "image", apart=True).objects()
    of = {
        o["subjects"][0]["name"]: o["roleRef"]["name"]
        for o in objects
        if o["kind"] == "RoleBinding" and len(o["subjects"]) == 1
    }
    assert of == {f"vmatrix-operator-{name}": f"vmatrix-operator-{name}" for name in NAMES}
    args = [o["spec"]["template"]["spec"]["containers"][0]["args"] for o in objects if o["kind"] == "Deployment"]
    assert [words[-1] for words in args] == [f"--controllers={name}" for name in NAMES]


def test_two_operators_in_a_cluster_do_not_share_a_binding() -> None:
    def wide(namespace: str) -> set[str]:
        objects = Installation(namespace, "image", everywhere=True).objects()
        return {o["metadata"]["name"] for o in objects if o["kind"] == "ClusterRoleBinding"}

    assert wide("a") & wide("b") == set()


def served(namespace: str, *, apart: bool = False, everywhere: bool = False) -> dict[str, dict[str, Any]]:
    """Return the objects of an operator with webhooks that are about these, by kind."""
    objects = Installation(namespace, "image", apart=apart, everywhere=everywhere, webhooks=True).objects()
    return {o["kind"]: o for o in objects if o["kind"] == "Service" or o["kind"].endswith("WebhookConfiguration")}


@pytest.mark.parametrize("apart", [False, True])
def test_the_service_of_webhooks_leads_to_the_pods_that_serve_them(apart: bool) -> None:
    service = served("ns", apart=apart)["Service"]
    selector, (port,) = service["spec"]["selector"], service["spec"]["ports"]
    objects = Installation("ns", "image", apart=apart, webhooks=True).objects()
    pods = [o["spec"]["template"] for o in objects if o["kind"] == "Deployment"]
    (chosen,) = [pod for pod in pods if selector.items() <= pod["metadata"]["labels"].items()]
    (container,) = chosen["spec"]["containers"]
    assert {"name": port["targetPort"], "containerPort": 9443} in container["ports"]
    assert ("--controllers=webhooks" if apart else "--controllers=all,webhooks") in container["args"]
    told = [
        word
        for pod in pods
        for word in pod["spec"]["containers"][0]["args"]
        if word.endswith(("=webhooks", ",webhooks"))
    ]
    assert len(told) == 1
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        for hook in served("ns", apart=apart)[kind]["webhooks"]:
            called = hook["clientConfig"]["service"]
            assert (called["namespace"], called["name"]) == ("ns", service["metadata"]["name"])


def test_webhooks_are_asked_about_the_namespaces_that_the_operator_looks_at() -> None:
    for wide in (False, True):
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
            for hook in served("ns", everywhere=wide)[kind]["webhooks"]:
                assert (hook.get("namespaceSelector") is None) == wide


def test_two_operators_with_webhooks_share_no_configuration_and_no_role_about_one() -> None:
    def names(namespace: str) -> set[tuple[str, str]]:
        objects = Installation(namespace, "image", webhooks=True).objects()
        about = [o for o in objects if o["kind"].endswith("Configuration") or "everywhere" in o["metadata"]["name"]]
        return {(o["kind"], o["metadata"]["name"]) for o in about}

    assert names("a") & names("b") == set()
    assert len(names("a")) == 4


@pytest.mark.parametrize("apart", [False, True])
def test_git_servers_reach_the_manager_that_hears_them(apart: bool) -> None:
    objects = Installation("ns", "image", apart=apart).objects()
    (service,) = [o for o in objects if o["kind"] == "Service"]
    (port,) = service["spec"]["ports"]
    pods = [o["spec"]["template"] for o in objects if o["kind"] == "Deployment"]
    (chosen,) = [pod for pod in pods if service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()]
    (container,) = chosen["spec"]["containers"]
    assert {"name": port["targetPort"], "containerPort": GIT_PORT} in container["ports"]
    assert apart == ("--controllers=gitwebhooks" in container["args"])


def test_a_dead_operator_can_only_hold_up_what_people_wish() -> None:
    found = served("ns")
    closed = [
        (rule["resources"], rule["operations"])
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        for hook in found[kind]["webhooks"]
        for rule in hook["rules"]
        if hook["failurePolicy"] == "Fail"
    ]
    assert sorted(closed) == [
        (["clusterdeployments", "etcdclusters"], ["CREATE", "UPDATE"]),
        (["deliveries"], ["CREATE", "UPDATE"]),
        (["machinesets"], ["CREATE", "UPDATE"]),
    ]
    judged = found["ValidatingWebhookConfiguration"]["webhooks"]
    for hook in (one for one in judged if "DELETE" in one["rules"][0]["operations"]):
        said = " ".join(one["expression"] for one in hook["matchConditions"])
        assert "namespace-controller" in said
        assert "generic-garbage-collector" in said


def test_a_text_is_read_back_as_the_objects() -> None:
    objects = Installation("ns", "host/vmatrix:1").objects()
    assert list(yaml.safe_load_all(text(objects))) == objects


def test_the_samples_are_accepted() -> None:
    found = [obj for path in sorted((FOLDER / "samples").glob("*.yml")) for obj in documents(path)]
    deployments = [obj for obj in found if obj["kind"] == "ClusterDeployment"]
    assert len(deployments) >= 2
    for obj in deployments:
        cd, mistakes = read(obj, load_releases().kubernetes, [])
        assert [mistake.text for mistake in mistakes] == []
        assert cd is not None
    for obj in (one for one in found if one["kind"] == "EtcdCluster"):
        wish, wrong = read_etcd(obj, None, creating=True)
        assert ([mistake.text for mistake in wrong], wish is None) == ([], False)
    for obj in (one for one in found if one["kind"] == "Delivery"):
        assert read_delivery(obj)[1] == []
    machines = [DeclaredMachine.model_validate(obj) for obj in found if obj["kind"] == "Machine"]
    names = {machine.metadata.name for machine in machines}
    assert len(names) == 3
    for obj in deployments:
        for one in obj["spec"]["machineSets"]:
            assert set(one["machines"].get("names", ())) <= names


def documents(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file."""
    return [dict(obj) for obj in yaml.safe_load_all(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("apart", [False, True])
def test_only_who_serves_webhooks_has_its_nodes_address_and_only_if_asked(apart: bool) -> None:
    def hosts(*, host_network: bool) -> list[str]:
        objects = Installation("ns", "image", apart=apart, webhooks=True, host_network=host_network).objects()
        pods = {o["metadata"]["name"]: o["spec"]["template"]["spec"] for o in objects if o["kind"] == "Deployment"}
        return [name for name, pod in pods.items() if pod.get("hostNetwork")]

    assert hosts(host_network=False) == []
    assert hosts(host_network=True) == ["vmatrix-operator-webhooks" if apart else "vmatrix-operator"]


def pod(*controllers: str, everywhere: bool = False) -> dict[str, Any]:
    made = deployment("name", "ns", "host/vmatrix:1", controllers=controllers, everywhere=everywhere)
    assert made["spec"]["selector"]["matchLabels"].items() <= made["spec"]["template"]["metadata"]["labels"].items()
    return dict(made["spec"]["template"]["spec"])


def test_it_passes_pod_security_restricted() -> None:
    found = pod()
    (container,) = found["containers"]
    assert found["securityContext"]["runAsNonRoot"] is True
    assert found["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(found)
    assert [list(volume) for volume in found["volumes"]] == [["name", "emptyDir"]]


def test_it_is_looked_at_where_it_answers() -> None:
    (container,) = pod()["containers"]
    assert container["ports"] == [
        {"name": "health", "containerPort": HEALTH_PORT},
        {"name": "gitwebhooks", "containerPort": GIT_PORT},
    ]
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("liveness", "readiness", "startup")}
    assert {probe["port"] for probe in probes.values()} == {"health"}
    assert probes["readiness"]["path"] == "/readyz"
    assert GRACE_SECONDS > END_SECONDS


def test_it_is_told_where_to_look_and_what_to_run() -> None:
    own, wide, one = pod(), pod(everywhere=True), pod("machine", "claims")
    assert own["containers"][0]["args"] == ["operator", "run", "--namespace=$(POD_NAMESPACE)"]
    assert wide["containers"][0]["args"] == ["operator", "run"]
    assert one["containers"][0]["args"][-1] == "--controllers=machine,claims"
    assert {env["name"] for env in own["containers"][0]["env"]} == {"HOME", "POD_NAME", "POD_NAMESPACE"}


@pytest.mark.parametrize("apart", [False, True])
def test_only_managers_that_build_are_told_of_registries(apart: bool) -> None:
    told = ("--base-registry=a:5000", "--insecure-registry=a:5000")
    objects = Installation("ns", "image", apart=apart, webhooks=True, of_builds=told).objects()
    having = {
        o["metadata"]["name"]
        for o in objects
        if o["kind"] == "Deployment" and set(told) <= set(o["spec"]["template"]["spec"]["containers"][0]["args"])
    }
    assert having == {"vmatrix-operator-builds" if apart else "vmatrix-operator"}

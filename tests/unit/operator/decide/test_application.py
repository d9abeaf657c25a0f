"""The objects of an application, whose fields are whose, and how far a rollout is."""

from __future__ import annotations

from typing import Any

import pytest

from harness.kube.objects import dig
from harness.operator.api.delivery import DeliveredRevision, Delivery
from harness.operator.decide.application import (
    application_objects,
    at_home,
    is_scaled,
    left_to_autoscaler,
    merged,
    rollout_state,
    url_of,
)
from tests.unit.operator.api.deliveries import GOOD, IMAGE, delivery

Json = dict[str, Any]
IMAGE_NAME = f"{IMAGE}@sha256:{'a' * 64}"
ENTRY = DeliveredRevision(revision="a" * 40, outcome="Built", image=IMAGE_NAME)


def objects(*, scaled: bool = False, **deploy: Any) -> dict[str, Json]:
    wish = Delivery.model_validate(delivery(deploy=deploy))
    return {body["kind"]: body for body in application_objects(wish, ENTRY, scaled=scaled)}


def pod(**deploy: Any) -> Json:
    return dict(objects(**deploy)["Deployment"]["spec"]["template"]["spec"])


def app(**deploy: Any) -> Json:
    return dict(next(one for one in pod(**deploy)["containers"] if one["name"] == "app"))


def test_every_field_of_an_application_is_in_an_object() -> None:
    wish = Delivery.model_validate(GOOD["everything"])
    made = {body["kind"]: body for body in application_objects(wish, ENTRY, scaled=False, pulls=b"{}")}
    assert {body["metadata"]["namespace"] for body in made.values()} == {"web"}
    spec = made["Deployment"]["spec"]
    container = spec["template"]["spec"]["containers"][0]
    assert (spec["replicas"], spec["progressDeadlineSeconds"], container["image"]) == (2, 30, IMAGE_NAME)
    assert container["ports"] == [
        {"name": "http", "containerPort": 8080, "protocol": "TCP"},
        {"name": "dns", "containerPort": 80, "protocol": "UDP"},
    ]
    assert container["env"] == [
        {"name": "A", "value": ""},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "s", "key": "k"}}},
    ]
    assert container["resources"] == {"limits": {"memory": "64Mi"}}
    assert container["readinessProbe"]["httpGet"] == {"path": "/ready", "port": 8080}
    assert container["livenessProbe"]["tcpSocket"] == {"port": 9000}
    assert container["startupProbe"]["periodSeconds"] == 1
    assert spec["template"]["spec"]["imagePullSecrets"] == [{"name": "shop-pull"}, {"name": "more"}]
    secret = made["Secret"]
    assert (secret["metadata"]["name"], secret["type"]) == ("shop-pull", "kubernetes.io/dockerconfigjson")
    assert secret["data"] == {".dockerconfigjson": "e30="}
    assert made["Service"]["spec"]["type"] == "NodePort"
    assert made["Service"]["spec"]["ports"][0] == {"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}
    ingress = made["Ingress"]["spec"]
    assert ingress["tls"] == [{"hosts": ["shop.example"], "secretName": "tls"}]
    assert ingress["ingressClassName"] == "nginx"
    backend = ingress["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert backend == {"name": "shop", "port": {"name": "http"}}
    assert url_of(wish) == "https://shop.example/"
    assert not at_home(wish)


def test_no_pod_of_the_last_revision_ends_before_one_of_the_next_is_ready() -> None:
    strategy = objects()["Deployment"]["spec"]["strategy"]["rollingUpdate"]
    assert strategy == {"maxUnavailable": 0, "maxSurge": 1}
    assert app()["readinessProbe"]["tcpSocket"] == {"port": 80}, "without a probe, a connection tells"
    assert "readinessProbe" not in app(ports=[{"name": "dns", "port": 53, "protocol": "UDP"}])


def test_at_home_nodes_pull_with_the_secret_itself() -> None:
    assert pod(pullSecretRef={"name": "pull"})["imagePullSecrets"] == [{"name": "pull"}]
    assert objects(pullSecretRef={"name": "pull"}).keys() == {"Deployment", "Service"}
    assert "imagePullSecrets" not in pod()


def test_without_ports_there_is_no_service() -> None:
    assert objects(ports=[]).keys() == {"Deployment"}
    assert objects(service={"type": "None"}).keys() == {"Deployment"}
    assert url_of(Delivery.model_validate(delivery(deploy={"ports": []}))) is None


def test_the_number_of_pods_is_left_to_whoever_scales() -> None:
    assert "replicas" not in objects()["Deployment"]["spec"]
    assert objects(replicas=0)["Deployment"]["spec"]["replicas"] == 0
    assert "replicas" not in objects(replicas=3, scaled=True)["Deployment"]["spec"]


def field(manager: str, subresource: str = "scale") -> Json:
    return {"manager": manager, "subresource": subresource, "fieldsV1": {"f:spec": {"f:replicas": {}}}}


@pytest.mark.parametrize(
    ("entries", "scaled"),
    [
        ([], False),
        ([field("kube-controller-manager")], True),
        ([field("keda")], True),
        ([field("kubectl")], False),
        ([field("kubectl-edit")], False),
        ([field("kube-controller-manager", "status")], False),
        ([{"manager": "x", "subresource": "scale", "fieldsV1": {"f:status": {}}}], False),
    ],
)
def test_who_scales(entries: list[Json], scaled: bool) -> None:
    assert is_scaled({"metadata": {"managedFields": entries}}) == scaled
    assert not is_scaled(None)


def test_what_an_autoscaler_has_decided_meanwhile_is_left_to_it() -> None:
    made = objects(replicas=3)
    there = {"metadata": {"managedFields": [field("kube-controller-manager")]}}
    assert "replicas" not in left_to_autoscaler(made["Deployment"], there)["spec"]
    assert left_to_autoscaler(made["Deployment"], {"metadata": {}}) == made["Deployment"]
    assert left_to_autoscaler(made["Service"], there) == made["Service"]


TEMPLATE: Json = {
    "metadata": {"labels": {"tier": "web", "delivery.vmatrix.dev/application": "other"}},
    "spec": {
        "serviceAccountName": "shop",
        "volumes": [{"name": "data", "emptyDir": {}}],
        "containers": [
            {"name": "proxy", "image": "registry.example/proxy"},
            {
                "name": "app",
                "image": "registry.example/other",
                "env": [{"name": "A", "value": "theirs"}, {"name": "Z", "value": "z"}],
                "ports": [{"containerPort": 80, "name": "web"}],
                "args": ["-v"],
            },
        ],
    },
}


def test_a_template_is_merged_over_what_the_fields_make() -> None:
    told: Json = {
        "template": TEMPLATE,
        "env": [{"name": "A", "value": "ours"}],
        "ports": [{"name": "http", "port": 80}],
    }
    made = objects(**told)["Deployment"]["spec"]
    spec = made["template"]["spec"]
    assert spec["serviceAccountName"] == "shop"
    assert [one["name"] for one in spec["containers"]] == ["app", "proxy"]
    container = spec["containers"][0]
    assert container["image"] == IMAGE_NAME, "the image is always the revision's"
    assert container["env"] == [{"name": "A", "value": "theirs"}, {"name": "Z", "value": "z"}]
    assert container["ports"] == [{"name": "web", "containerPort": 80, "protocol": "TCP"}]
    assert container["args"] == ["-v"]
    labels = made["template"]["metadata"]["labels"]
    assert labels["tier"] == "web"
    assert made["selector"]["matchLabels"].items() <= labels.items(), "the selector always fits"


def test_merging() -> None:
    assert merged({"a": 1, "b": {"c": 1}}, {"b": {"d": 2}}) == {"a": 1, "b": {"c": 1, "d": 2}}
    assert merged({"args": ["a"]}, {"args": ["b"]}) == {"args": ["b"]}, "a list without keys is another's as a whole"
    assert merged({"env": [{"name": "a"}]}, {"env": "odd"}) == {"env": "odd"}
    assert merged({"volumes": ["odd"]}, {"volumes": [{"name": "a"}]}) == {"volumes": ["odd", {"name": "a"}]}


def test_what_lies_at_home_goes_with_its_delivery() -> None:
    for body in objects().values():
        assert body["metadata"]["ownerReferences"][0]["uid"] == "uid-shop"
    for body in (*objects(namespace="web").values(), *objects(cluster="guest").values()):
        assert "ownerReferences" not in body["metadata"]


LATE = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "too late"}


def deployment(available: int = 0, *, seen: int = 2, late: bool = False) -> Json:
    counts = {"replicas": 1, "updatedReplicas": 1, "availableReplicas": available, "observedGeneration": seen}
    status = {**counts, "conditions": [LATE] if late else []}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"generation": 2}, "status": status}


def a_pod(*, phase: str = "Running", **status: Any) -> Json:
    spec = {"containers": [{"name": "app", "image": IMAGE_NAME}]}
    return {"metadata": {"name": "shop-1"}, "spec": spec, "status": {"phase": phase, **status}}


WAITING = {"name": "app", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}
ENDED = {
    "name": "app",
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    "lastState": {"terminated": {"exitCode": 3, "reason": "Error"}},
}
NO_ROOM = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}
# What a rollout comes to, by a name: the Deployment, its pods, reason, words, whether it has failed.
STATES: dict[str, tuple[Json, list[Json], str, str, bool]] = {
    "not there yet": (deployment(), [], "Deploying", "0 of 1 are available", False),
    "not seen yet": (deployment(seen=1, late=True), [], "Deploying", "not seen it yet", False),
    "too late": (deployment(late=True), [], "RolloutFailed", "too late", True),
    "no image": (
        deployment(late=True),
        [a_pod(phase="Pending", containerStatuses=[WAITING])],
        "ImagePullBackOff",
        "pod shop-1: ImagePullBackOff: not found",
        True,
    ),
    "a crash": (deployment(), [a_pod(containerStatuses=[ENDED])], "CrashLoopBackOff", "Error, status 3", False),
    "no node": (deployment(), [a_pod(phase="Pending", conditions=[NO_ROOM])], "Unschedulable", "0/1 nodes", False),
    "a probe": (deployment(), [a_pod(conditions=[])], "NotReady", "probe does not say", False),
    "of another revision": (
        deployment(),
        [{**a_pod(containerStatuses=[ENDED]), "spec": {"containers": [{"image": "other"}]}}],
        "Deploying",
        "0 of 1",
        False,
    ),
}


@pytest.mark.parametrize("case", STATES)
def test_how_far_a_rollout_is(case: str) -> None:
    found, pods, reason, words, failed = STATES[case]
    state = rollout_state(found, IMAGE_NAME, pods)
    assert (state.reason, bool(state.failed)) == (reason, failed)
    assert words in state.waits


def test_a_rollout_that_is_there_waits_for_nothing() -> None:
    state = rollout_state(deployment(1), IMAGE_NAME, [])
    assert not state.waits
    assert not state.failed
    assert dig(deployment(1), "status", "availableReplicas") == 1

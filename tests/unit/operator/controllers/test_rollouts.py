"""What rollouts do with an API in memory: apply by digest, wait, go back, put back, wait for clusters, take away."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import pytest

from harness.errors import VmatrixError
from harness.kube.client import ApiFailure
from harness.kube.objects import dig
from harness.kube.resources import CONFIG_MAP, DEPLOYMENT, INGRESS, NAMESPACE, POD, SECRET, SERVICE
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, DELIVERY
from harness.operator.controllers.guest import NoKubeconfig
from harness.operator.controllers.rollouts import GUEST_SECONDS, HOME_SECONDS, SOON_SECONDS
from tests.unit.operator.api.deliveries import delivery
from tests.unit.operator.controllers.delivered import A, B, C, DeliveryApi, PlayedDelivery, played

Json = dict[str, Any]


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> PlayedDelivery:
    return played(monkeypatch)


def deliver(shop: PlayedDelivery, revision: str) -> None:
    """Have a revision pushed, built and applied."""
    shop.newest = revision
    shop.annotate(reconcile=revision[:6])
    shop.settle()
    shop.end(revision)
    shop.settle()


def ready(shop: PlayedDelivery, revision: str) -> None:
    """Have a revision delivered, with pods that come up."""
    deliver(shop, revision)
    shop.came_up()
    shop.settle()


def test_a_revision_runs_by_digest_and_is_ready_once_its_pods_are(shop: PlayedDelivery) -> None:
    deliver(shop, A)
    assert shop.runs == "a"
    assert shop.said("Deployed")[:2] == shop.said("Ready")[:2] == ("False", "Deploying")
    assert shop.roll() == SOON_SECONDS
    shop.came_up()
    shop.settle()
    assert shop.said("Ready") == ("True", "Delivered", "aaaaaaaaaaaa runs")
    told = shop.status
    assert (told["revision"], told["commit"], told["url"]) == (A, A[:12], "http://shop.team.svc:80/")
    assert told["image"].endswith(f"@sha256:{'a' * 64}")
    assert shop.roll() == HOME_SECONDS
    assert "delivery_duration_seconds_count 1.0" in shop.context.metrics.text([], leading=True)
    for kind in (DEPLOYMENT, SERVICE, CONFIG_MAP):
        name = "shop" if kind != CONFIG_MAP else "delivery-team-shop"
        assert shop.get(kind, name)["metadata"]["ownerReferences"][0]["uid"] == "uid-shop"


def test_the_next_revision_takes_its_place_and_the_history_has_both(shop: PlayedDelivery) -> None:
    ready(shop, A)
    ready(shop, B)
    assert shop.outcomes == ["b Ready", "a Ready"]
    assert shop.status["revision"] == B


def test_a_revision_that_does_not_come_up_is_rolled_back(shop: PlayedDelivery) -> None:
    ready(shop, A)
    deliver(shop, B)
    statuses = [{"name": "app", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such thing"}}}]
    spec = dig(shop.get(DEPLOYMENT), "spec", "template", "spec")
    pod = POD.manifest("shop-b", "team", labels={"delivery.vmatrix.dev/application": "shop"}, spec=spec)
    shop.api.put(POD, {**pod, "status": {"phase": "Pending", "containerStatuses": statuses}})
    shop.roll()
    assert "pod shop-b: ImagePullBackOff: no such thing" in shop.said("Deployed")[2]
    shop.came_not_up()
    shop.settle()
    assert shop.runs == "a", "the last good image is back"
    shop.came_up()
    shop.settle()
    assert shop.outcomes == ["b RolledBack", "a Ready"]
    assert shop.status["revision"] == A
    entry = shop.status["history"][0]
    assert entry["reason"] == "ImagePullBackOff"
    status, reason, message = shop.said("Ready")
    assert (status, reason) == ("False", "RolledBack")
    assert "pod shop-b: ImagePullBackOff" in message
    assert message.endswith("aaaaaaaaaaaa runs")


def test_the_next_good_one_follows_a_bad_one(shop: PlayedDelivery) -> None:
    ready(shop, A)
    deliver(shop, B)
    shop.came_not_up()
    shop.settle()
    ready(shop, C)
    assert shop.outcomes == ["c Ready", "b RolledBack", "a Ready"]
    assert shop.said("Ready")[0] == "True"


def test_a_first_revision_that_does_not_come_up_stays_to_be_looked_at(shop: PlayedDelivery) -> None:
    deliver(shop, A)
    shop.came_not_up()
    shop.settle()
    assert shop.outcomes == ["a Failed"]
    assert shop.runs == "a"
    assert shop.said("Ready")[:2] == ("False", "RolloutFailed")
    shop.came_up()
    shop.settle()
    assert shop.outcomes == ["a Ready"], "it came up after all"


def test_without_rollback_a_bad_revision_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = played(monkeypatch, delivery(rollback=False))
    ready(shop, A)
    deliver(shop, B)
    shop.came_not_up()
    shop.settle()
    assert shop.runs == "b"
    assert shop.outcomes == ["b Failed", "a Ready"]


def test_an_edit_that_repairs_what_was_rolled_back_has_it_tried_once_more(shop: PlayedDelivery) -> None:
    ready(shop, A)
    deliver(shop, B)
    shop.came_not_up()
    shop.settle()
    assert shop.runs == "a"
    shop.edit(deploy={"ports": [{"name": "http", "port": 80}], "probes": {"readiness": {"path": "/other"}}})
    shop.settle()
    assert shop.runs == "b"
    shop.came_up()
    shop.settle()
    assert shop.said("Ready")[0] == "True"


def test_an_edit_of_how_it_runs_is_not_ready_before_it_is_there(shop: PlayedDelivery) -> None:
    ready(shop, A)
    shop.edit(deploy={"ports": [{"name": "http", "port": 80}], "env": [{"name": "A", "value": "b"}]})
    shop.build()
    assert shop.said("Ready")[:2] == ("False", "Deploying")
    shop.settle()
    assert shop.said("Ready")[0] == "False"
    shop.came_up()
    shop.settle()
    assert shop.said("Ready")[0] == "True"
    assert dig(shop.get(DEPLOYMENT), "spec", "template", "spec", "containers")[0]["env"] == [
        {"name": "A", "value": "b"}
    ]


def test_what_is_deleted_is_put_back(shop: PlayedDelivery) -> None:
    ready(shop, A)
    shop.api.delete(SERVICE, "shop", "team")
    shop.settle()
    assert shop.get(SERVICE)
    shop.api.delete(DEPLOYMENT, "shop", "team")
    shop.settle()
    assert shop.runs == "a"
    assert shop.said("Ready")[0] == "False"
    shop.came_up()
    shop.settle()
    assert shop.said("Ready")[0] == "True"


def test_what_is_not_wanted_any_more_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = played(monkeypatch, delivery(deploy={"ingress": {"host": "shop.example"}}))
    ready(shop, A)
    assert shop.get(INGRESS)
    assert shop.status["url"] == "http://shop.example/"
    shop.edit(deploy={"ports": []})
    shop.settle()
    assert shop.api.all(INGRESS) == shop.api.all(SERVICE) == []


GUEST: Json = {"deploy": {"cluster": "guest"}}
DOWN = {"conditions": [{"type": "Ready", "status": "False", "reason": "Progressing", "message": "0/1 machines"}]}
UP = {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": ""}]}


def of_guest(monkeypatch: pytest.MonkeyPatch, guest: DeliveryApi) -> PlayedDelivery:
    """Return a Delivery into a guest cluster that has an API."""
    shop = played(monkeypatch, delivery(**GUEST))

    @contextmanager
    def opened(key: Any) -> Any:
        if isinstance(guest, VmatrixError):
            raise guest
        yield guest

    monkeypatch.setattr(shop.rollouts._targets._access, "open", opened)
    return shop


def cluster(status: Json) -> Json:
    return {**CLUSTER_DEPLOYMENT.manifest("guest", "team", labels={}), "status": status}


def test_a_guest_that_is_not_ready_is_waited_for_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = DeliveryApi()
    shop = of_guest(monkeypatch, guest)
    deliver(shop, A)
    assert shop.said("Deployed")[1] == "ClusterMissing"
    shop.api.put(CLUSTER_DEPLOYMENT, cluster(DOWN))
    shop.settle()
    assert shop.said("Deployed")[1:] == ("WaitingForCluster", "ClusterDeployment guest is not Ready: 0/1 machines")
    assert shop.said("Ready")[1] == "WaitingForCluster"
    assert shop.roll() == GUEST_SECONDS
    assert guest.all(DEPLOYMENT) == []
    shop.api.put(CLUSTER_DEPLOYMENT, cluster(UP))
    shop.settle()
    made = guest.get(DEPLOYMENT, "shop", "team")
    assert made is not None
    assert "ownerReferences" not in made["metadata"], "its owner is in another cluster"
    assert shop.api.all(DEPLOYMENT) == []


def test_a_guest_without_a_kubeconfig_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = of_guest(monkeypatch, NoKubeconfig("there is no Secret guest-kubeconfig"))  # type: ignore[arg-type]
    shop.api.put(CLUSTER_DEPLOYMENT, cluster(UP))
    deliver(shop, A)
    assert shop.said("Deployed")[1:] == ("WaitingForCluster", "there is no Secret guest-kubeconfig")


def test_what_lies_in_a_guest_is_taken_away_before_its_delivery_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = DeliveryApi()
    shop = of_guest(monkeypatch, guest)
    shop.api.put(CLUSTER_DEPLOYMENT, cluster(UP))
    deliver(shop, A)
    assert guest.get(SERVICE, "shop", "team")
    shop.api.delete(DELIVERY, "shop", "team")
    assert shop.get(DELIVERY)["metadata"]["deletionTimestamp"]
    while shop.api.get(DELIVERY, "shop", "team") is not None:
        shop.roll()
    assert guest.all(DEPLOYMENT) == guest.all(SERVICE) == guest.all(CONFIG_MAP) == []


def delivered_into(monkeypatch: pytest.MonkeyPatch, **deploy: Any) -> tuple[PlayedDelivery, DeliveryApi]:
    """Return a Delivery whose revision runs in a guest, and that guest's API."""
    guest = DeliveryApi()
    shop = of_guest(monkeypatch, guest)
    shop.edit(deploy={**GUEST["deploy"], "ports": [{"name": "http", "port": 80}], **deploy})
    shop.api.put(CLUSTER_DEPLOYMENT, cluster(UP))
    if deploy:
        shop.api.put(SECRET, SECRET.manifest("pull", "team", labels={}, data={".dockerconfigjson": "e30="}))
    deliver(shop, A)
    came_up(shop, guest)
    assert shop.said("Ready")[0] == "True"
    return shop, guest


def came_up(shop: PlayedDelivery, guest: DeliveryApi) -> None:
    made = guest.get(DEPLOYMENT, "shop", "team")
    assert made is not None
    counts = {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}
    seen = {"observedGeneration": made["metadata"]["generation"]}
    guest.put(
        DEPLOYMENT, {**made, "status": {"conditions": [{"type": "Available", "status": "True"}], **counts, **seen}}
    )
    shop.settle()


def silence(monkeypatch: pytest.MonkeyPatch, shop: PlayedDelivery, error: VmatrixError) -> None:
    """Have the guest not answer."""

    @contextmanager
    def opened(_: Any) -> Any:
        raise error
        yield

    monkeypatch.setattr(shop.rollouts._targets._access, "open", opened)


def test_a_namespace_that_a_guest_lacks_is_made_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    shop, guest = delivered_into(monkeypatch)
    made = guest.get(NAMESPACE, "team")
    assert made is not None
    assert "applyset.kubernetes.io/part-of" not in made["metadata"]["labels"]
    shop.api.delete(DELIVERY, "shop", "team")
    while shop.api.get(DELIVERY, "shop", "team") is not None:
        shop.roll()
    assert guest.get(NAMESPACE, "team")


def test_what_a_guests_nodes_pull_with_is_copied_kept_up_to_date_and_taken_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop, guest = delivered_into(monkeypatch, pullSecretRef={"name": "pull"})
    made = guest.get(SECRET, "shop-pull", "team")
    assert made is not None
    assert (made["type"], made["data"]) == ("kubernetes.io/dockerconfigjson", {".dockerconfigjson": "e30="})
    spec = dig(guest.get(DEPLOYMENT, "shop", "team"), "spec", "template", "spec")
    assert spec["imagePullSecrets"] == [{"name": "shop-pull"}]
    shop.api.merge(SECRET, "pull", {"data": {".dockerconfigjson": "e30K"}}, "team")
    shop.settle()
    assert (guest.get(SECRET, "shop-pull", "team") or {})["data"] == {".dockerconfigjson": "e30K"}
    guest.delete(SECRET, "shop-pull", "team")
    shop.settle()
    assert guest.get(SECRET, "shop-pull", "team"), "it is put back"
    shop.edit(deploy={**GUEST["deploy"], "ports": [{"name": "http", "port": 80}]})
    shop.settle()
    assert guest.all(SECRET) == [], "nobody needs it any more"


def test_a_pull_secret_that_is_missing_or_of_another_kind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for home in (True, False):
        shop, _ = (played(monkeypatch), None) if home else delivered_into(monkeypatch)
        shop.edit(deploy={**({} if home else GUEST["deploy"]), "pullSecretRef": {"name": "gone"}})
        if home:
            deliver(shop, A)
        shop.settle()
        assert shop.said("Deployed")[:2] == ("False", "SecretMissing")
        assert "there is no Secret gone" in shop.said("Deployed")[2]
        shop.api.put(SECRET, SECRET.manifest("gone", "team", labels={}, data={"password": "eA=="}))
        shop.settle()
        assert shop.said("Deployed")[1] == "BadPullSecret"
        assert "kubectl create secret docker-registry gone" in shop.said("Deployed")[2]


def test_what_runs_is_looked_after_during_an_operation_and_the_next_revision_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop, guest = delivered_into(monkeypatch)
    shop.api.put(CLUSTER_DEPLOYMENT, cluster(DOWN))
    guest.delete(SERVICE, "shop", "team")
    shop.settle()
    assert guest.get(SERVICE, "shop", "team")
    assert shop.said("Ready")[0] == "True"
    deliver(shop, B)
    assert shop.said("Ready")[:2] == ("False", "WaitingForCluster")
    assert shop.status["revision"] == A
    assert "a" * 64 in str(guest.get(DEPLOYMENT, "shop", "team"))
    shop.api.put(CLUSTER_DEPLOYMENT, cluster(UP))
    shop.settle()
    came_up(shop, guest)
    assert (shop.status["revision"], shop.said("Ready")[0]) == (B, "True")


@pytest.mark.parametrize(
    "error",
    [
        VmatrixError("GET https://10.0.0.1:6443/: connection refused"),
        ApiFailure(401, "Unauthorized", "Unauthorized", [], request="GET"),
    ],
)
def test_what_is_said_of_a_guest_that_does_not_answer_stays_for_a_while(
    monkeypatch: pytest.MonkeyPatch, error: VmatrixError
) -> None:
    shop, guest = delivered_into(monkeypatch)
    answers = shop.rollouts._targets._access.open
    moment = [1000.0]
    monkeypatch.setattr("harness.operator.controllers.rollouts.time.monotonic", lambda: moment[0])
    silence(monkeypatch, shop, error)
    for later in (0.0, 60.0, 59.0):
        moment[0] += later
        shop.settle()
        assert shop.said("Deployed")[:2] == ("True", "Unreachable")
        assert shop.said("Ready")[0] == "True"
        assert (shop.status["revision"], shop.status["url"]) == (A, "http://shop.team.svc:80/")
    moment[0] += 2.0
    shop.settle()
    assert shop.said("Deployed")[:2] == ("Unknown", "Unreachable")
    assert shop.said("Ready")[:2] == ("False", "Unreachable")
    monkeypatch.setattr(shop.rollouts._targets._access, "open", answers)
    shop.settle()
    assert shop.said("Ready")[:2] == ("True", "Delivered")
    silence(monkeypatch, shop, error)
    shop.settle()
    assert shop.said("Deployed")[0] == "True", "it counts from when it answered last"
    assert guest.get(DEPLOYMENT, "shop", "team")


def test_an_edit_while_a_guest_does_not_answer_is_not_said_to_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    shop, _ = delivered_into(monkeypatch)
    silence(monkeypatch, shop, VmatrixError("GET https://10.0.0.1:6443/: connection refused"))
    shop.settle()
    assert shop.said("Ready")[0] == "True"
    shop.edit(deploy={**GUEST["deploy"], "ports": [{"name": "http", "port": 80}], "replicas": 2})
    shop.settle()
    assert shop.said("Deployed")[:2] == ("False", "Unreachable")
    assert shop.said("Ready")[0] == "False"


def test_nothing_runs_any_more_in_a_guest_that_is_gone_and_all_of_it_in_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop, guest = delivered_into(monkeypatch)
    leaving = {**cluster(UP)}
    leaving["metadata"] = {**leaving["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x"]}
    shop.api.put(CLUSTER_DEPLOYMENT, leaving)
    shop.settle()
    assert shop.said("Ready")[:2] == ("False", "ClusterDeleting")
    shop.api.put(CLUSTER_DEPLOYMENT, cluster(UP))
    shop.api.delete(CLUSTER_DEPLOYMENT, "guest", "team")
    shop.settle()
    assert shop.said("Ready")[:2] == ("False", "ClusterMissing")
    assert not {"revision", "commit", "image", "url"} & shop.status.keys()
    assert shop.outcomes == ["a Deploying"]
    for kind in (DEPLOYMENT, SERVICE, CONFIG_MAP, NAMESPACE):
        for one in guest.all(kind):
            guest.delete(kind, one["metadata"]["name"], one["metadata"].get("namespace"))
    shop.api.put(CLUSTER_DEPLOYMENT, cluster(UP))
    shop.settle()
    came_up(shop, guest)
    assert (shop.status["revision"], shop.said("Ready")[0]) == (A, "True")


def test_a_delivery_into_a_guest_that_is_gone_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = of_guest(monkeypatch, DeliveryApi())
    shop.settle()
    shop.api.delete(DELIVERY, "shop", "team")
    shop.roll()
    assert shop.api.get(DELIVERY, "shop", "team") is None


def test_a_delivery_into_a_guest_that_does_not_answer_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = of_guest(monkeypatch, VmatrixError("GET https://10.0.0.1:6443/: connection refused"))  # type: ignore[arg-type]
    shop.api.put(CLUSTER_DEPLOYMENT, cluster(DOWN))
    shop.settle()
    shop.api.delete(DELIVERY, "shop", "team")
    assert shop.roll() == GUEST_SECONDS
    assert shop.get(DELIVERY)


def test_another_namespace_has_to_let_deliveries_in(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = played(monkeypatch, delivery(deploy={"namespace": "web"}))
    shop.api.permitted = False
    deliver(shop, A)
    assert shop.said("Deployed")[1] == "NotPermitted"
    assert "system:serviceaccounts:team" in shop.said("Deployed")[2]
    asked = shop.api.reviewed[0]
    assert asked["resourceAttributes"] == {
        "group": "apps",
        "resource": "deployments",
        "verb": "create",
        "namespace": "web",
    }
    assert shop.api.all(DEPLOYMENT) == []
    shop.api.permitted = True
    shop.settle()
    assert shop.api.get(DEPLOYMENT, "shop", "web")
    assert shop.get(DELIVERY)["metadata"]["finalizers"] == ["delivery.vmatrix.dev/application"]


class Unsigned(VmatrixError):
    """An image without a signature."""

    reason = "SignatureMissing"


def test_an_image_is_not_deployed_before_its_signature_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = played(monkeypatch, delivery(build={"signingSecretRef": {"name": "cosign"}}))
    shop.api.put(SECRET, SECRET.manifest("cosign", "team", labels={}, data={"cosign.key": "eA=="}))
    deliver(shop, A)
    assert shop.said("Deployed")[1:] == ("NoPublicKey", "Secret cosign has no key cosign.pub")
    shop.api.merge(SECRET, "cosign", {"data": {"cosign.pub": "eA=="}}, "team")
    shop.untrusted = Unsigned("it is not signed", hint="")
    shop.settle()
    assert shop.said("Deployed")[1:] == ("SignatureMissing", "it is not signed")
    assert shop.api.all(DEPLOYMENT) == []
    shop.untrusted = None
    shop.settle()
    assert shop.runs == "a"
    checked = len(shop.verified)
    shop.roll()
    assert len(shop.verified) == checked, "once is enough of a digest"


def test_a_refusal_of_the_api_is_told_in_its_words(shop: PlayedDelivery) -> None:
    shop.api.refusals["PATCH deployments"] = ApiFailure(422, "Invalid", "spec.template: no", [], request="PATCH")
    deliver(shop, A)
    status, reason, message = shop.said("Deployed")
    assert (status, reason) == ("False", "NotApplied")
    assert "Deployment team/shop: " in message
    assert "spec.template: no" in message


def test_nothing_is_written_where_nothing_is_new(shop: PlayedDelivery) -> None:
    ready(shop, A)
    shop.api.asked.clear()
    shop.roll()
    shop.build()
    assert not [line for line in shop.api.asked if not line.startswith("GET")]


def test_nothing_is_deployed_while_paused(shop: PlayedDelivery) -> None:
    shop.settle()
    shop.end(A)
    shop.edit(paused=True)
    shop.settle()
    assert shop.api.all(DEPLOYMENT) == []

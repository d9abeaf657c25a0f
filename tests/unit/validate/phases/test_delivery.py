"""What is wrong with a delivered application: each judgement with what is right, and with each thing that is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessBug
from harness.infra.deliveries import CLIENT_LABEL, Pushed, Request, commit
from harness.kube.client import Json
from harness.kube.objects import parse_time, stamp
from harness.kube.resources import DEPLOYMENT, POD, SERVICE
from harness.model import Cell, Phase
from harness.operator.api.resources import DELIVERY, DELIVERY_LABEL
from harness.rundir import AttemptDir
from harness.spec.models.product_declared import DeletedObject
from harness.validate.phases import delivery
from harness.validate.phases.delivery import DeliverySight, look, revisions
from harness.validate.topics.ingress import Page, WebAnswer
from tests.unit.fake_cluster import FakeCluster

GOOD, BAD = Pushed("deliver-2", "a" * 40, f"{'a' * 40} second"), Pushed("deliver-bad", "b" * 40, f"{'b' * 40} bad")
NOON = parse_time("2126-01-01T12:00:00Z").timestamp()
DIGESTS = {"a" * 12: "sha256:aa", "b" * 12: "sha256:bb"}
REPOSITORY = "registry:5001/cell/shop"


def at(seconds: float) -> str:
    """Return a moment after noon as an API has it."""
    return stamp(
        parse_time("2126-01-01T12:00:00Z").fromtimestamp(NOON + seconds, parse_time("2126-01-01T12:00:00Z").tzinfo)
    )


def history() -> list[Json]:
    bad = {"revision": BAD.revision, "outcome": "RolledBack", "image": f"{REPOSITORY}@sha256:bb"}
    good = {"revision": GOOD.revision, "outcome": "Ready", "image": f"{REPOSITORY}@sha256:aa"}
    return [{**bad, "deployed": at(10), "ended": at(50)}, {**good, "deployed": at(0), "ended": at(3)}]


def pod(image: str = f"{REPOSITORY}@sha256:aa") -> Json:
    status = {"phase": "Running", "containerStatuses": [{"imageID": image}]}
    return {"metadata": {"name": "shop-1", "labels": {"app": "shop"}, "namespace": "cell"}, "status": status}


def deployment(image: str = f"{REPOSITORY}@sha256:aa") -> Json:
    template = {"spec": {"containers": [{"name": "app", "image": image}]}}
    meta = {"name": "shop", "namespace": "cell", "labels": {DELIVERY_LABEL: "shop"}, "creationTimestamp": at(1)}
    return {"metadata": meta, "spec": {"selector": {"matchLabels": {"app": "shop"}}, "template": template}}


def seen(**status: Any) -> DeliverySight:
    ready = {"type": "Ready", "status": "False", "reason": "RolledBack"}
    known = {
        "repository": REPOSITORY,
        "revision": GOOD.revision,
        "image": f"{REPOSITORY}@sha256:aa",
        "history": history(),
        "conditions": [ready],
    }
    requests = tuple(Request(NOON + number, GOOD.answer, "") for number in range(60))
    body = {"metadata": {"name": "shop"}, "status": {**known, **status}}
    return DeliverySight(body, [deployment()], [pod()], requests, DIGESTS)


Change = Callable[[DeliverySight], DeliverySight]


def with_status(**status: Any) -> Change:
    return lambda sight: replace(sight, delivery={**sight.delivery, "status": {**sight.delivery["status"], **status}})


def with_requests(change: Callable[[Request], Request | None]) -> Change:
    def changed(sight: DeliverySight) -> DeliverySight:
        made = [change(one) for one in sight.requests]
        return replace(sight, requests=[one for one in made if one is not None])

    return changed


def with_entry(number: int, **values: Any) -> Change:
    def changed(sight: DeliverySight) -> DeliverySight:
        entries = [{**one} for one in history()]
        entries[number] |= values
        entries[number] = {key: value for key, value in entries[number].items() if value is not None}
        return with_status(history=entries)(sight)

    return changed


def between(one: Request) -> bool:
    return NOON + 20 <= one.at <= NOON + 22


JUDGED: Mapping[str, Callable[[DeliverySight], list[Any]]] = {
    "answers": lambda sight: delivery.wrong_answers(sight, GOOD),
    "images": lambda sight: delivery.wrong_images(sight, GOOD),
    "rolled back": lambda sight: delivery.not_rolled_back(sight, BAD),
    "all through": lambda sight: delivery.interrupted(sight, BAD, GOOD),
}
WRONG: Mapping[str, tuple[str, Change, str]] = {
    "another answer": ("answers", with_requests(lambda one: replace(one, answer="x")), "'x'"),
    "the answer of the bad one": ("answers", with_requests(lambda one: replace(one, answer=BAD.answer)), "bad"),
    "no answer at last": ("answers", with_requests(lambda one: replace(one, answer="", why="status 503")), "503"),
    "nobody has asked": ("answers", lambda sight: replace(sight, requests=()), "3 requests since it was ready"),
    "nobody has asked since": ("answers", with_requests(lambda one: one if one.at < NOON else None), "3 requests"),
    "nobody has asked the one that was made again": (
        "answers",
        lambda sight: replace(
            sight, deployments=[{"metadata": {**deployment()["metadata"], "creationTimestamp": at(90)}}]
        ),
        "3 requests",
    ),
    "it was never ready": ("answers", with_entry(1, ended=None), "a time since when it is ready"),
    "the registry has none": ("images", lambda sight: replace(sight, digests={}), "expected an image; saw none"),
    "the registry has another": ("images", lambda sight: replace(sight, digests={"a" * 12: "sha256:cc"}), "sha256:cc"),
    "another revision is said": ("images", with_status(revision=BAD.revision), "the revision"),
    "another image is said": ("images", with_status(image=f"{REPOSITORY}:latest"), "the image"),
    "no pod runs": ("images", lambda sight: replace(sight, pods=[]), "a pod that runs"),
    "another image runs": ("images", lambda sight: replace(sight, pods=[pod(f"{REPOSITORY}@sha256:bb")]), "sha256:bb"),
    "a pod of each": ("images", lambda sight: replace(sight, pods=[pod(), pod("x@sha256:bb")]), "sha256:bb"),
    "a tag": ("images", lambda sight: replace(sight, deployments=[deployment("shop:1")]), "shop:1"),
    "no Deployment": ("images", lambda sight: replace(sight, deployments=[]), "Deployments 1"),
    "two Deployments": ("images", lambda sight: replace(sight, deployments=[deployment()] * 2), "Deployments 1"),
    "no history of it": ("rolled back", with_status(history=[]), "an entry of"),
    "it did not build": ("rolled back", with_entry(0, outcome="BuildFailed"), "BuildFailed"),
    "it was not pushed": ("rolled back", lambda sight: replace(sight, digests={}), "the digest of the image"),
    "it was not deployed": ("rolled back", with_entry(0, deployed=None), "a time (deployed)"),
    "it is ready": ("rolled back", with_status(conditions=[{"type": "Ready", "status": "True"}]), "condition Ready"),
    "another answered": (
        "all through",
        with_requests(lambda one: replace(one, answer=BAD.answer) if between(one) else one),
        "bad",
    ),
    "nobody answered": (
        "all through",
        with_requests(lambda one: replace(one, answer="", why="refused") if between(one) else one),
        "refused",
    ),
    "too few asked": (
        "all through",
        with_requests(lambda one: one if one.at < NOON + 12 else None),
        "5 requests while",
    ),
    "nobody asked for a while": (
        "all through",
        with_requests(lambda one: None if NOON + 20 <= one.at <= NOON + 35 else one),
        "none for 17 s",
    ),
    "it never ended": ("all through", with_entry(0, ended=None), "when it was deployed and rolled back"),
}


@pytest.mark.parametrize("what", JUDGED)
def test_what_is_right_is_no_finding(what: str) -> None:
    assert JUDGED[what](seen()) == []


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told(case: str) -> None:
    what, change, words = WRONG[case]
    found = JUDGED[what](change(seen()))
    assert found, "nothing was told"
    assert words in "; ".join(map(str, found))


SHOP = [DeletedObject(apiVersion="v1", kind="Service", name="shop")]


@pytest.mark.parametrize(
    ("created", "words"), [(at(60), ""), (at(3), "made after"), (None, "an object")], ids=["new", "the same", "gone"]
)
def test_an_object_that_was_deleted_is_another_one(
    created: str | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "resource_of", lambda *_: SERVICE)
    cluster = FakeCluster()
    if created is not None:
        meta = {"name": "shop", "namespace": "cell", "creationTimestamp": created}
        cluster.put(SERVICE, {"metadata": meta})
    found = delivery.not_made_again(cluster, "cell", seen(), SHOP)
    assert words in "; ".join(map(str, found))
    assert bool(found) is bool(words)


@pytest.mark.parametrize(
    ("requests", "created", "words"),
    [
        ([(50, "x", ""), (55, "", "there is no Service shop")], at(60), ""),
        ([(58, "x", ""), (60.5, "", "there is no Service shop")], at(60), ""),
        ([(20, "x", ""), (30, "", "there is no Service shop")], at(60), "after 30 s"),
        ([(20, "x", ""), (30, "", "timed out"), (59, "", "there is no Service shop")], at(60), "after 30 s"),
        ([(5, "", "there is no Service shop"), (50, "x", ""), (55, "", "refused")], at(60), ""),
        ([(70, "x", "")], at(60), "requests before"),
        ([], None, "an object"),
    ],
)
def test_a_service_is_put_back_in_time(requests: list[tuple[float, str, str]], created: str | None, words: str) -> None:
    cluster = FakeCluster()
    if created is not None:
        cluster.put(SERVICE, {"metadata": {"name": "shop", "namespace": "cell", "creationTimestamp": created}})
    asked = tuple(Request(NOON + moment, answer, why) for moment, answer, why in requests)
    found = delivery.put_back_late(cluster, "cell", replace(seen(), requests=asked), "shop")
    assert words in "; ".join(map(str, found))
    assert bool(found) is bool(words)


INGRESS: Json = {"spec": {"deploy": {"ingress": {"host": "shop.example"}}}, "status": {"url": "http://shop.example/"}}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (WebAnswer(200, GOOD.answer), ""),
        (WebAnswer(200, "other"), "other"),
        (WebAnswer(404, "not found"), "status 404"),
        (WebAnswer(error="port 80 is refused"), "port 80 is refused"),
    ],
)
def test_every_node_is_asked_by_the_host_of_the_ingress(
    answer: WebAnswer, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []

    def get_page(address: str, page: Page, _: float) -> WebAnswer:
        asked.append((address, str(page)))
        return answer

    monkeypatch.setattr(delivery, "get_page", get_page)
    found = delivery.misled(INGRESS, GOOD, {"cp-0": "10.0.0.1", "w-0": "10.0.0.2"}, 1.0)
    assert asked == [(address, "http://shop.example/") for address in ("10.0.0.1", "10.0.0.2")]
    assert words in "; ".join(map(str, found))
    assert len(found) == (2 if words else 0)


def test_no_ingress_or_another_url_is_told() -> None:
    assert "an Ingress" in str(delivery.misled({"spec": {"deploy": {}}}, GOOD, {"cp-0": "a"}, 1.0))
    assert "an Ingress" in str(delivery.misled(INGRESS, GOOD, {}, 1.0))


def test_nothing_deleted_is_no_proof() -> None:
    for sight, objects in ((seen(), []), (seen(history=[]), SHOP)):
        with pytest.raises(HarnessBug, match="nothing was deleted, or nothing was delivered"):
            delivery.not_made_again(FakeCluster(), "cell", sight, objects)


def test_a_look_finds_the_delivery_its_application_and_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "digest_in", lambda registry, name, tag: f"{registry} {name} {tag}")
    monkeypatch.setattr(
        FakeCluster, "pod_log", lambda *_, **__: '{"at": 1.0, "answer": "x", "why": ""}\n', raising=False
    )
    client: Json = {"metadata": {"name": "client-1", "namespace": "cell", "labels": {CLIENT_LABEL: ""}}}
    gone = {**pod(), "metadata": {**pod()["metadata"], "name": "shop-0", "deletionTimestamp": at(0)}}
    body = {"metadata": {"name": "shop", "namespace": "cell"}, "status": {"repository": REPOSITORY}}
    cluster = FakeCluster({DELIVERY: [body], DEPLOYMENT: [deployment()], POD: [client, gone, pod()]})
    found = look(cluster, "cell", "registry:5001", ["aaaa"])
    assert [one["metadata"]["name"] for one in found.pods] == ["shop-1"]
    assert found.requests == (Request(1.0, "x", ""),)
    assert found.digests == {"aaaa": "registry:5001 cell/shop aaaa"}
    guest_client = {**client, "metadata": {**client["metadata"], "namespace": "default"}}
    guest = FakeCluster({DEPLOYMENT: [deployment()], POD: [guest_client, pod()]})
    assert look(cluster, "cell", "registry:5001", [], guest).requests == found.requests
    assert look(cluster, "cell", "registry:5001", [], guest).pods == [guest.get(POD, "shop-1", "cell")]
    for kind, name in ((POD, "client-1"), (DELIVERY, "shop")):
        cluster.delete(kind, name, "cell")
        with pytest.raises(HarnessBug, match="0 objects that are a"):
            look(cluster, "cell", "registry:5001", [])


PHASES = ("", "answers", "answers", "rolls-back", "comes-back")
NAMES = ("deploy", "deliver", "deliver", "deliver-bad", "put-back")


def test_the_last_revision_that_answers_is_the_good_one(tmp_path: Path) -> None:
    phases = tuple(Phase(name, delivery=said) for name, said in zip(NAMES, PHASES, strict=True))
    cell, files = Cell("c", {}, "deliver", phases, (), {}), AttemptDir(tmp_path)
    made = {
        stage: commit(files.repository, {"answer": stage}, stage) for stage in ("deliver", "deliver-2", "deliver-bad")
    }
    good = [revisions(cell, index, files).good.revision for index in (1, 2, 3, 4)]
    assert good == [made[stage].revision for stage in ("deliver", "deliver-2", "deliver-2", "deliver-2")]
    bad = [revisions(cell, index, files).bad for index in (1, 2, 3, 4)]
    assert [one.revision if one is not None else None for one in bad] == [
        None,
        None,
        made["deliver-bad"].revision,
        None,
    ]
    with pytest.raises(HarnessBug, match="nothing was delivered yet"):
        revisions(cell, 0, files)

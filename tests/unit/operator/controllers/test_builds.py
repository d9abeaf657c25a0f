"""What builds do with an API in memory: fetch, build once, retry what may pass, keep logs, tidy."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import InfraError, VmatrixError
from harness.kube.client import ApiFailure
from harness.kube.objects import dig
from harness.kube.resources import CONFIG_MAP, JOB, SECRET
from harness.operator.api.resources import DELIVERY
from harness.operator.build import dockerfile
from harness.operator.build.buildkit import OTHER, REASONS
from harness.operator.build.job import ENDINGS, IMAGE_MISSING, LOST, UNSCHEDULABLE
from harness.operator.build.program import UNEXPECTED
from harness.operator.controllers import builds
from harness.operator.decide.application import PULLS, WAITS
from harness.operator.execute.logs import show_log_of
from tests.unit.operator.api.deliveries import IMAGE, delivery
from tests.unit.operator.controllers.delivered import KEY, A, B, C, PlayedDelivery, played
from tests.unit.pages import ROOT

Json = dict[str, Any]


class Down(InfraError):
    """A git server that does not answer."""

    reason = "Unreachable"


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> PlayedDelivery:
    return played(monkeypatch)


def test_the_newest_revision_is_built_in_a_job_of_its_name(shop: PlayedDelivery) -> None:
    shop.settle()
    job = shop.get(JOB, f"shop-{A[:12]}")
    assert job["metadata"]["ownerReferences"][0]["uid"] == "uid-shop"
    assert shop.outcomes == ["a Building"]
    assert shop.said("Fetched")[:2] == ("True", "Fetched")
    assert shop.said("Built")[:2] == shop.said("Ready")[:2] == ("False", "Building")
    assert (shop.status["requested"]["revision"], shop.status["requested"]["by"]) == (A, "poll")


def test_what_was_built_has_its_image_by_digest_and_its_log(shop: PlayedDelivery) -> None:
    shop.settle()
    shop.api.logs = {"fetch": "cloned\n", "build": "built\npushed\n"}
    shop.end(A)
    shop.settle()
    entry = shop.status["history"][0]
    assert entry["image"] == f"{IMAGE}@sha256:{'a' * 64}"
    assert entry["committed"] == "2026-01-01T00:00:00Z"
    assert shop.status["repository"] == IMAGE
    assert shop.said("Built")[0] == shop.said("Pushed")[0] == "True"
    lines: list[str] = []
    show_log_of(shop.api, "team", "shop", "", lines.append)
    show_log_of(shop.api, "team", "delivery/shop", "aaaa", lines.append)
    assert lines == ["cloned", "built", "pushed"] * 2
    assert 'builds_total{result="succeeded"} 1.0' in shop.context.metrics.text([], leading=True)


def test_a_revision_that_was_built_is_not_built_again(shop: PlayedDelivery) -> None:
    shop.settle()
    shop.end(A)
    shop.settle()
    shop.api.delete(JOB, f"shop-{A[:12]}", "team")
    shop.settle()
    assert shop.api.all(JOB) == []
    shop.newest = B
    shop.annotate(reconcile="1")
    shop.settle()
    shop.end(B)
    shop.settle()
    shop.newest = A
    shop.annotate(reconcile="2")
    shop.settle()
    assert [job["metadata"]["name"] for job in shop.api.all(JOB)] == [f"shop-{B[:12]}"], "its image is taken"
    assert shop.outcomes[0].startswith("a ")
    assert shop.status["history"][0]["image"].endswith("a" * 64)


def test_of_what_was_pushed_during_a_build_only_the_last_is_built(shop: PlayedDelivery) -> None:
    shop.settle()
    for number, revision in enumerate((B, C)):
        shop.newest = revision
        shop.annotate(reconcile=str(number))
        shop.settle()
    assert len(shop.api.all(JOB)) == 1
    shop.end(A)
    shop.settle()
    assert shop.outcomes[0] == "c Building"
    assert not any(outcome.startswith("b") for outcome in shop.outcomes)


def test_the_annotation_has_the_repository_looked_at_once_and_names_who_pushed(shop: PlayedDelivery) -> None:
    shop.settle()
    looked = len(shop.asked)
    shop.newest = B
    shop.settle()
    assert len(shop.asked) == looked, "the next look is due in half a minute"
    shop.annotate(reconcile="x", **{"pushed-by": "alice x"})
    shop.settle()
    assert len(shop.asked) == looked + 1
    assert shop.status["reconciled"] == "x"
    assert (shop.status["requested"]["revision"], shop.status["requested"]["by"]) == (B, "alice")
    shop.newest = C
    shop.annotate(reconcile="y")
    shop.settle()
    assert (shop.status["requested"]["revision"], shop.status["requested"]["by"]) == (C, "annotation")


def test_an_edited_source_is_looked_at_at_once(shop: PlayedDelivery) -> None:
    shop.settle()
    looked = len(shop.asked)
    shop.edit(source={"git": "https://git.example/other", "branch": "next"})
    shop.settle()
    assert len(shop.asked) == looked + 1
    assert shop.asked[-1].branch == "next"


def test_a_given_revision_needs_no_look(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = played(monkeypatch, delivery(source={"revision": B}))
    shop.settle()
    assert shop.asked == []
    assert shop.outcomes == ["b Building"]


def test_a_repository_that_is_not_to_be_had_is_told_and_asked_again(shop: PlayedDelivery) -> None:
    shop.newest = Down("git.example does not answer", hint="check source.git")
    pause = shop.build()
    assert shop.said("Fetched")[:2] == shop.said("Ready")[:2] == ("False", "Unreachable")
    assert shop.said("Fetched")[2] == "git.example does not answer (check source.git)"
    assert pause is not None
    assert shop.api.all(JOB) == []


def test_what_runs_stays_ready_while_the_repository_is_away(shop: PlayedDelivery) -> None:
    shop.settle()
    shop.end(A)
    shop.settle()
    shop.came_up()
    shop.settle()
    assert shop.said("Ready")[0] == "True"
    shop.newest = Down("git.example does not answer", hint="")
    shop.annotate(reconcile="1")
    shop.settle()
    assert shop.said("Fetched")[0] == "False"
    assert shop.said("Ready")[0] == "True"


def test_a_broken_dockerfile_is_told_with_its_line_until_somebody_repairs_it(shop: PlayedDelivery) -> None:
    shop.settle()
    shop.end(A, reason="DockerfileBroken", message="unknown instruction FORM", line="1: FORM scratch", stage="Fetched")
    shop.settle()
    assert shop.outcomes == ["a BuildFailed"]
    status, reason, message = shop.said("Built")
    assert (status, reason) == ("False", "DockerfileBroken")
    assert message == "aaaaaaaaaaaa: unknown instruction FORM: 1: FORM scratch"
    assert shop.said("Ready")[1] == "DockerfileBroken"
    first = shop.get(JOB, f"shop-{A[:12]}")["metadata"]["annotations"]
    shop.results.clear()
    shop.edit(build={"image": IMAGE, "dockerfile": "other"})
    shop.settle()
    assert shop.outcomes == ["a Building"]
    assert shop.get(JOB, f"shop-{A[:12]}")["metadata"]["annotations"] != first, "it is another Job of the name"


def test_a_build_that_could_not_clone_says_so_of_fetched(shop: PlayedDelivery) -> None:
    shop.settle()
    shop.end(A, reason="RevisionNotFound", message="it was removed")
    shop.settle()
    assert shop.said("Fetched")[:2] == ("False", "RevisionNotFound")
    before = shop.status
    shop.build()
    assert shop.status == before, "nothing is written where nothing is new"


def test_what_may_pass_is_tried_again_after_a_while(shop: PlayedDelivery, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.settle()
    shop.end(A, reason="RegistryUnavailable", message="it does not answer", stage="Built", transient=True)
    assert shop.build() == 0.0
    pause = shop.build()
    assert pause is not None
    assert 0 < pause <= 10
    assert (shop.said("Built")[0], shop.said("Pushed")[1]) == ("True", "RegistryUnavailable")
    monkeypatch.setattr("harness.operator.decide.delivery.FIRST_RETRY_SECONDS", 0.0)
    shop.results.clear()
    shop.settle()
    entry = shop.status["history"][0]
    assert (entry["outcome"], entry["attempts"]) == ("Building", 2)


def test_somebody_may_ask_for_another_try(shop: PlayedDelivery) -> None:
    shop.settle()
    shop.end(A, reason="BuildFailed", message="a test failed")
    shop.settle()
    shop.results.clear()
    shop.annotate(reconcile="now")
    shop.settle()
    assert shop.outcomes == ["a Building"]


@pytest.mark.parametrize("field", ["source.secretRef", "build.pushSecretRef", "build.signingSecretRef"])
def test_a_secret_that_is_missing_is_told_before_a_job_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    part, _, name = field.partition(".")
    told: Json = {part: {name: {"name": "absent"}}}
    shop = played(monkeypatch, delivery(**told))
    shop.settle()
    kind = "Fetched" if part == "source" else "Built"
    assert shop.said(kind)[:2] == ("False", "SecretMissing")
    assert "there is no Secret absent" in shop.said(kind)[2]
    assert shop.api.all(JOB) == []
    shop.api.put(SECRET, SECRET.manifest("absent", "team", labels={}, data={}))
    shop.annotate(reconcile="1")
    shop.settle()
    assert shop.outcomes == ["a Building"]


def test_a_job_that_somebody_deleted_is_made_again(shop: PlayedDelivery) -> None:
    shop.settle()
    shop.api.delete(JOB, f"shop-{A[:12]}", "team")
    shop.settle()
    assert shop.get(JOB, f"shop-{A[:12]}")
    assert shop.outcomes == ["a Building"]


def test_another_ones_job_of_the_name_is_left_alone(shop: PlayedDelivery) -> None:
    shop.api.put(JOB, JOB.manifest(f"shop-{A[:12]}", "team", labels={}))
    shop.settle()
    assert shop.said("Built")[1] == shop.said("Ready")[1] == "NameTaken"
    assert "belongs to somebody else (delete it, or rename the Delivery)" in shop.said("Built")[2]
    shop.api.delete(JOB, f"shop-{A[:12]}", "team")
    shop.settle()
    assert shop.get(JOB, f"shop-{A[:12]}")


def test_a_build_that_a_quota_refuses_says_so(shop: PlayedDelivery, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> bool:
        raise ApiFailure(403, "Forbidden", "exceeded quota: jobs", [], request="POST jobs")

    with monkeypatch.context() as patch:
        patch.setattr(shop.api, "create_if_absent", refuse)
        shop.settle()
    assert shop.said("Built")[1] == "Forbidden"
    assert "exceeded quota: jobs" in shop.said("Built")[2]
    shop.settle()
    assert shop.get(JOB, f"shop-{A[:12]}")


def test_no_more_builds_than_are_allowed_run_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = played(monkeypatch, builds=1)
    shop.api.put(DELIVERY, delivery("other"))
    shop.settle()
    other = ("team", "other")
    assert shop.build(other) == builds.QUEUE_SECONDS
    queued = next(c for c in shop.get(DELIVERY, "other")["status"]["conditions"] if c["type"] == "Built")
    assert queued["reason"] == "Queued"
    shop.end(A)
    shop.settle()
    shop.build(other)
    assert dig(shop.get(DELIVERY, "other"), "status", "history")[0]["outcome"] == "Building"


def test_mistakes_are_conditions_where_no_webhook_has_refused_them(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = played(monkeypatch, delivery(source={"git": "file:///etc"}))
    assert shop.build() is None
    assert shop.said("Accepted")[:2] == shop.said("Ready")[:2] == ("False", "Invalid")
    assert shop.said("Accepted")[2].startswith("spec.source.git: it is not the address of a git repository: ")
    shop.edit(source=7)
    shop.build()
    assert "spec.source" in shop.said("Accepted")[2]
    assert shop.asked == []


def test_a_paused_delivery_is_left_alone_but_for_what_runs(shop: PlayedDelivery) -> None:
    shop.settle()
    shop.edit(paused=True)
    shop.newest = B
    shop.annotate(reconcile="1")
    shop.end(A)
    shop.settle()
    assert shop.outcomes == ["a Built"]
    assert len(shop.asked) == 1


def test_jobs_and_logs_of_old_revisions_go(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = played(monkeypatch, delivery(history=4))
    shop.api.logs = {"build": "built\n"}
    for number, letter in enumerate("abcdef"):
        shop.newest = letter * 40
        shop.annotate(reconcile=str(number))
        shop.settle()
        shop.end(letter * 40)
        shop.settle()
        shop.came_up()
        shop.settle()
    assert [name[0] for name in shop.outcomes] == ["f", "e", "d", "c"]
    assert [job["metadata"]["name"][5] for job in shop.api.all(JOB)] == ["d", "e", "f"]
    logs = [one["metadata"]["name"] for one in shop.api.all(CONFIG_MAP) if one["metadata"]["name"].endswith("-log")]
    assert [name[5] for name in logs] == ["c", "d", "e", "f"]


def test_nothing_is_asked_of_what_is_gone(shop: PlayedDelivery) -> None:
    shop.api.delete(DELIVERY, "shop", "team")
    assert shop.build() is None
    assert shop.asked == []
    assert shop.builds.reconcile(KEY) is None


ABSTRACT = {"GitFailed", "SignatureFailed"}  # nothing raises these themselves


def reasons() -> set[str]:
    """Return the reasons for which a Delivery is not ready, as far as the code has them in lists or in errors."""
    kinds: list[type[VmatrixError]] = [VmatrixError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    modules = ("harness.operator.build.", "harness.operator.controllers.builds", "harness.operator.controllers.secrets")
    of_errors = {str(kind.__dict__["reason"]) for kind in kinds if "reason" in kind.__dict__ and of(kind, modules)}
    of_builds = {one.reason for one in (*REASONS, OTHER)} | {one.reason for one in (*ENDINGS.values(), LOST)}
    of_files = {dockerfile.MISSING, dockerfile.BINARY, dockerfile.BROKEN, dockerfile.NO_TARGET}
    of_images = {dockerfile.NOT_ALLOWED, dockerfile.UNRESOLVED, IMAGE_MISSING, UNSCHEDULABLE, *PULLS}
    return of_errors - ABSTRACT | of_builds | of_files | of_images | {UNEXPECTED, *WAITS}


def of(kind: type, modules: tuple[str, ...]) -> bool:
    return kind.__module__.startswith(modules)


def test_the_page_says_what_to_do_about_every_reason() -> None:
    page = (ROOT / "docs" / "operator" / "delivery.md").read_text(encoding="utf-8").partition("### Reasons")[2]
    assert len(reasons()) > 30
    assert {one for one in reasons() if f"`{one}`" not in page} == set()

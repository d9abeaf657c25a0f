"""One revision, declared by a pipeline: what is applied, and what it fails with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from harness.cli import app, operator
from harness.errors import BadInput, InfraError, ProductError
from harness.kube.client import Cluster
from harness.operator import deliveries
from harness.operator.api.delivery import DeliveryStatus
from harness.operator.api.resources import DELIVERY
from harness.operator.deliveries import declared_in, deliver
from tests.unit.fake_cluster import FakeCluster
from tests.unit.operator.api.deliveries import GIT, delivery

Json = dict[str, Any]
A = "a" * 40


def written(folder: Path, *bodies: Json) -> Path:
    """Return a file with objects."""
    file = folder / "delivery.yml"
    file.write_text(yaml.safe_dump_all(bodies), encoding="utf-8")
    return file


def test_the_revision_takes_the_place_of_a_branch_or_tag(tmp_path: Path) -> None:
    body = delivery(source={"branch": "main"})
    del body["metadata"]["namespace"]
    made = declared_in(written(tmp_path, {"kind": "Secret"}, body), A, "here")
    assert made["spec"]["source"] == {"git": GIT, "revision": A}
    assert made["metadata"]["namespace"] == "here"
    assert declared_in(written(tmp_path, delivery()), A, "here")["metadata"]["namespace"] == "team"


@pytest.mark.parametrize(
    ("bodies", "words"),
    [
        ([], "has no objects of kind Delivery"),
        ([delivery(), delivery("b")], "has 2 objects of kind Delivery"),
        ([delivery(source={"git": "file:///x"})], "spec.source.git: it is not the address of a git repository"),
        ([{**delivery(), "spec": 7}], "spec: "),
        ([{**delivery(), "metadata": 7}], "metadata"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, bodies: list[Json], words: str) -> None:
    with pytest.raises(BadInput) as refused:
        declared_in(written(tmp_path, *bodies), A, "here")
    assert words in refused.value.summary


def condition(kind: str, status: str, reason: str, message: str = "") -> Json:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "x"}


class Operated(FakeCluster):
    """An API in which an operator writes statuses, one after each look."""

    def __init__(self, *statuses: Json) -> None:
        super().__init__()
        self._left = list(statuses)

    def get(self, resource: Any, name: str, namespace: str | None = None) -> Json | None:
        """Return the object with the next status."""
        found = super().get(resource, name, namespace)
        if found is not None and self._left:
            asked = found["metadata"]["annotations"]["delivery.vmatrix.dev/reconcile"]
            found = self.put(resource, {**found, "status": {"reconciled": asked, **self._left.pop(0)}})
        return found


def state(outcome: str = "", *conditions: Json, generation: int = 1, **entry: Any) -> Json:
    history = [{"revision": A, "outcome": outcome, **entry}] if outcome else []
    runs = {"revision": A, "image": "i", "url": "u"} if outcome == "Ready" else {}
    return {"history": history, "conditions": list(conditions), "observedGeneration": generation, **runs}


READY, BUILDING = condition("Ready", "True", "Delivered", "it runs"), condition("Ready", "False", "Building", "Job x")
BODY = delivery(source={"revision": A})


def delivered(monkeypatch: pytest.MonkeyPatch, *statuses: Json) -> tuple[DeliveryStatus, list[str]]:
    monkeypatch.setattr(deliveries, "LOOK_SECONDS", 0.0)
    lines: list[str] = []
    return deliver(Operated(*statuses), BODY, seconds=30, show=lines.append), lines


def test_each_change_is_shown_until_the_revision_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    old = {**state("", READY, generation=0), "revision": "b" * 40}
    status, lines = delivered(
        monkeypatch, old, state("Building", BUILDING), state("Building", BUILDING), state("Ready", READY)
    )
    assert (status.image, status.url) == ("i", "u")
    assert lines == ["Building: Job x", "Delivered: it runs"]


@pytest.mark.parametrize("outcome", ["BuildFailed", "RolledBack", "Failed"])
def test_a_revision_that_fails_is_the_products_with_its_line_and_its_log(
    monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    with pytest.raises(ProductError) as failed:
        delivered(monkeypatch, state(outcome, BUILDING, reason="Why", message="words", line="3: x"))
    assert failed.value.summary == f"aaaaaaaaaaaa: {outcome}: Why: words: 3: x"
    assert failed.value.hint == "vmatrix operator log -n team shop aaaaaaaaaaaa"


def test_what_failed_before_is_not_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {**state("BuildFailed", BUILDING), "reconciled": "earlier"}
    assert delivered(monkeypatch, before, state("Ready", READY))[0].revision == A


def test_a_build_that_is_tried_again_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    passing = state("BuildFailed", BUILDING, transient=True, attempts=1)
    assert delivered(monkeypatch, passing, state("Ready", READY))[0].revision == A
    with pytest.raises(ProductError):
        delivered(monkeypatch, state("BuildFailed", BUILDING, transient=True, attempts=8))


def test_what_the_operator_refuses_and_what_is_deleted_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match=r"spec\.source\.git: no"):
        delivered(monkeypatch, state("", condition("Accepted", "False", "Invalid", "spec.source.git: no")))
    monkeypatch.setattr(Operated, "get", lambda *_: None)
    with pytest.raises(InfraError, match="was deleted meanwhile"):
        delivered(monkeypatch)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []

    def played(cluster: Cluster, body: Json, **options: Any) -> DeliveryStatus:
        calls.append((body["spec"]["source"]["revision"], options["seconds"]))
        return DeliveryStatus(image="i@sha256:0", url="http://shop/")

    monkeypatch.setattr(operator, "deliver_revision", played)
    monkeypatch.setattr(operator, "open_usual", lambda _: FakeCluster())
    return calls


def test_the_command_tells_gitlab_where_it_answers(asked: list[Any], tmp_path: Path) -> None:
    words = ["operator", "deliver", str(written(tmp_path, delivery())), "--revision", A, "-n", "team"]
    told = CliRunner().invoke(app, [*words, "--dotenv", str(tmp_path / "env")], catch_exceptions=False)
    assert asked == [(A, 1800.0)]
    assert told.stdout == "image  i@sha256:0\nurl    http://shop/\n"
    text = (tmp_path / "env").read_text(encoding="utf-8")
    assert text == "DELIVERY_URL=http://shop/\nDELIVERY_IMAGE=i@sha256:0\n"


@pytest.mark.parametrize("revision", ["main", "a" * 12, "A" * 40])
def test_a_revision_that_may_mean_several_is_refused(asked: list[Any], tmp_path: Path, revision: str) -> None:
    refused = CliRunner().invoke(app, ["operator", "deliver", str(tmp_path / "none.yml"), "--revision", revision])
    assert "is not a full SHA" in str(refused.exception)
    assert asked == []
    assert DELIVERY.kind == "Delivery"

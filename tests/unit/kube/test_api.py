"""What every request to an API says of itself."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path

import pytest

from harness.errors import EXIT_INFRA, EXIT_RETRY, InfraError
from harness.kube.api import HASTY, PATIENT, Patience, repeatable, timeouts, with_patience
from harness.kube.client import Cluster
from harness.kube.failures import Answer, ApiFailure, Overwhelmed, Unreachable, Untrusted, failure_of, seconds_of
from harness.until import Deadline, NotYet, TimedOut, grown, time_left, until


class Particular(BaseHTTPRequestHandler):
    """Answers as KubeVirt's subresources do: only who takes anything gets more than a refusal."""

    def do_PUT(self) -> None:
        takes = {name.strip() for name in self.headers.get("Accept", "*/*").split(",")}
        self.send_response(202 if "*/*" in takes else 406)
        self.end_headers()
        self.wfile.write(b"406: Not Acceptable" if "*/*" not in takes else b"")

    def do_GET(self) -> None:
        """Answer in YAML unless JSON is asked for first."""
        first = self.headers.get("Accept", "").partition(",")[0]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"kind": "Pod"}).encode() if first == "application/json" else b"kind: Pod")

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Particular) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        config = {
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
            "current-context": "c",
        }
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(config))
        yield Cluster.from_kubeconfig(path)
        server.shutdown()


def test_an_api_that_names_no_answer_of_its_own_is_not_put_off(cluster: Cluster) -> None:
    assert cluster.send("PUT", "/apis/subresources.kubevirt.io/v1/x", body={}).code == 202


def test_json_is_asked_for_first(cluster: Cluster) -> None:
    assert cluster.request("GET", "/api/v1/pods/x") == {"kind": "Pod"}


QUICK = Patience(again_seconds=2.0)


def refusing(code: int, message: str = "no", **details: object) -> ApiFailure:
    body = {"reason": "R", "message": message, "details": details}
    return failure_of(Answer(code, body, ()), "GET /x")


class Failing:
    """Fails so many times in a way, then answers."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error, self.times, self.tries = error, times, 0

    def __call__(self) -> str:
        self.tries += 1
        if self.tries <= self.times:
            raise self.error
        return "answer"


@pytest.mark.parametrize("error", [refusing(429), refusing(503), refusing(500), Unreachable("GET: reset")])
def test_a_wait_goes_on_through_trouble(error: Exception) -> None:
    probe = Failing(error, 2)
    assert until(probe, deadline=Deadline.after(10), what="an answer", interval=0.01) == "answer"


@pytest.mark.parametrize(
    "error",
    [refusing(403), refusing(404), refusing(500, "admission webhook denied the request"), Untrusted("GET: x509")],
)
def test_a_wait_ends_at_what_time_does_not_mend(error: Exception) -> None:
    probe = Failing(error, 9)
    with pytest.raises(type(error)):
        until(probe, deadline=Deadline.after(10), what="an answer", interval=0.01)
    assert probe.tries == 1


def test_the_last_trouble_is_what_is_said_when_time_is_up() -> None:
    with pytest.raises(TimedOut, match="waiting for an answer: GET /x: 503 R: shutting down"):
        until(Failing(refusing(503, "shutting down"), 999), deadline=Deadline.after(0.3), what="an answer")


def test_a_trouble_at_the_end_does_not_hide_what_was_said_before() -> None:
    answers: list[Exception] = [refusing(500, "failed calling webhook")]

    def probe() -> str:
        raise answers.pop() if answers else Unreachable("GET: no answer in time")

    with pytest.raises(TimedOut, match=r"no answer in time \(before that: .*failed calling webhook\)"):
        until(probe, deadline=Deadline.after(0.4), what="an answer", interval=0.01)


def test_who_cannot_be_asked_for_detail_does_not_hide_the_failure() -> None:
    def describe() -> str:
        raise Unreachable("GET /events: reset")

    with pytest.raises(TimedOut, match="waiting for it: no") as caught:
        until(lambda: NotYet("no"), deadline=Deadline.after(0), what="it", describe=describe)
    assert caught.value.detail == "no more detail: GET /events: reset"


def test_no_request_outlasts_the_wait_around_it() -> None:
    assert time_left() is None
    assert timeouts(HASTY) == (5.0, 30.0)
    seen = until(lambda: timeouts(HASTY), deadline=Deadline.after(2), what="asked")
    assert seen[0] <= 2.0
    assert seen[1] <= 2.0

    def nested() -> float:
        return until(lambda: time_left() or 0.0, deadline=Deadline.after(100), what="inner")

    assert until(nested, deadline=Deadline.after(2), what="outer") <= 2.0
    assert time_left() is None


def test_looks_grow_rarer_up_to_the_slowest() -> None:
    moments: list[float] = []

    def probe() -> bool | NotYet:
        moments.append(time.monotonic())
        return len(moments) > 8 or NotYet("no")

    until(probe, deadline=Deadline.after(20), what="it", interval=0.01, slowest=0.03)
    pauses = [after - before for before, after in pairwise(moments)]
    assert pauses[0] >= 0.01
    assert pauses[-1] >= 0.029


def test_pauses_double_are_bounded_and_differ() -> None:
    assert all(0.5 <= grown(1.0, 1, 8.0) <= 1.5 for _ in range(50))
    assert all(2.0 <= grown(1.0, 3, 8.0) <= 6.0 for _ in range(50))
    assert all(4.0 <= grown(1.0, 99, 8.0) <= 12.0 for _ in range(50))
    assert len({grown(1.0, 1, 8.0) for _ in range(10)}) > 1


def test_patience_asks_again_and_the_impatient_do_not() -> None:
    asked = Failing(refusing(503), 2)
    assert with_patience(asked, QUICK, repeatable=True) == "answer"
    once = Failing(refusing(503), 2)
    with pytest.raises(Overwhelmed):
        with_patience(once, HASTY, repeatable=True)
    assert once.tries == 1


def test_what_may_have_been_done_is_repeated_only_where_that_does_no_harm() -> None:
    for error in (refusing(500), refusing(504), Unreachable("POST: reset")):
        asked = Failing(error, 1)
        with pytest.raises(InfraError):
            with_patience(asked, QUICK, repeatable=False)
        assert asked.tries == 1
    assert with_patience(Failing(refusing(429), 1), QUICK, repeatable=False) == "answer"


def test_the_summary_says_how_often_it_was_tried() -> None:
    with pytest.raises(Overwhelmed, match=r"\(tried \d+ times\)"):
        with_patience(Failing(refusing(503), 99), Patience(again_seconds=0.8), repeatable=True)


def test_who_is_asked_to_wait_longer_than_patience_gives_up_at_once() -> None:
    asked = Failing(refusing(429, retryAfterSeconds=60), 1)
    with pytest.raises(Overwhelmed):
        with_patience(asked, PATIENT, repeatable=True)
    assert asked.tries == 1


@pytest.mark.parametrize(
    ("method", "body", "may"),
    [
        ("GET", None, True),
        ("DELETE", {}, True),
        ("POST", {"kind": "Pod", "metadata": {"name": "x"}}, True),
        ("POST", {"kind": "Pod", "metadata": {"generateName": "x-"}}, False),
        ("POST", {"kind": "SelfSubjectAccessReview"}, True),
        ("POST", None, False),
    ],
)
def test_what_may_be_sent_twice(method: str, body: object, may: bool) -> None:
    assert repeatable(method, body) is may


def test_trouble_is_worth_another_attempt_and_a_refusal_is_not() -> None:
    assert refusing(503).exit_code == EXIT_RETRY
    assert refusing(403).exit_code == EXIT_INFRA
    assert refusing(429, retryAfterSeconds=7).retry_after == 7.0
    assert seconds_of("3") == 3.0
    assert seconds_of("Wed, 21 Oct 2026 07:28:00 GMT") is None

"""What a program in a pod answers to probes."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from harness.errors import BadInput
from harness.kube.https import Health, health_served

SECONDS = 60.0


class Patient:
    """A process whose state the test decides."""

    def __init__(self) -> None:
        self.trouble, self.waiting, self.port = "", "", 0
        self.health = Health(lambda: self.trouble, lambda: self.waiting, lambda: "some_metric 1\n")

    def ask(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


@pytest.fixture
def patient() -> Iterator[Patient]:
    made = Patient()
    with health_served(made.health, 0, "127.0.0.1", hint="--another-port") as made.port:
        yield made


def test_process_that_works_is_healthy_and_ready(patient: Patient) -> None:
    assert patient.ask("/healthz") == patient.ask("/readyz") == (200, "ok\n")


def test_process_that_waits_is_healthy_and_not_ready(patient: Patient) -> None:
    patient.waiting = "waiting for the first lists"
    assert patient.ask("/healthz") == (200, "ok\n")
    assert patient.ask("/readyz") == (503, "waiting for the first lists\n")


def test_process_that_sees_nothing_any_more_is_neither(patient: Patient) -> None:
    patient.trouble = "nothing is seen any more of jobs"
    assert patient.ask("/healthz") == patient.ask("/readyz") == (503, "nothing is seen any more of jobs\n")


def test_metrics_are_plain_text_and_other_paths_are_not_there(patient: Patient) -> None:
    assert patient.ask("/metrics") == (200, "some_metric 1\n")
    assert patient.ask("/other")[0] == 404


def test_port_that_is_taken_is_refused(patient: Patient) -> None:
    taken = health_served(Health(str, str, str), patient.port, "127.0.0.1", hint="--another-port")
    with pytest.raises(BadInput, match=f"cannot listen on port {patient.port}") as refused, taken:
        pass
    assert "--another-port" in refused.value.hint

"""Requests are sent until they are stopped; one that stops or never succeeds has somebody to blame."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import InfraError, ProductError
from harness.model import Machine
from harness.until import Deadline
from harness.validate.facts.availability import read_availability
from harness.validate.remote.availability import RequestStream, send_requests
from tests.unit.shipped_timeouts import TIMEOUTS
from tests.unit.validate import guests
from tests.unit.validate.serving import serving

ROOT = Machine(replace(guests.guest().environment.machines[0].planned, name="w-0"), "127.0.0.1", 22, "root")
# in place of ssh: the command that is appended runs here; bash becomes its only command, so that stopping it stops that
HERE = ("/bin/bash", "-c")


def test_questions_are_asked_until_they_are_stopped(tmp_path: Path) -> None:
    with serving() as port:
        asking = send_requests(ROOT, HERE, {"it": (f"http://127.0.0.1:{port}/", "")}, tmp_path / "log", TIMEOUTS)
        try:
            asking.wait_for_success(Deadline.after(30), what="it to answer")
            asking.wait_for_success(Deadline.after(30), what="it to answer again", since_now=True)
        finally:
            asking.stop()
    assert not asking.service.alive()
    answers = read_availability(asking.output())["it"]
    assert answers.asked > 1
    assert answers.failed == 0


def test_an_address_that_does_not_answer_is_the_products_fault(tmp_path: Path) -> None:
    asking = send_requests(ROOT, HERE, {"it": ("http://127.0.0.1:1/", "")}, tmp_path / "log", TIMEOUTS)
    try:
        with pytest.raises(ProductError, match="it: "):
            asking.wait_for_success(Deadline.after(1), what="it to answer")
    finally:
        asking.stop()


def test_a_machine_that_stops_asking_is_the_infras_fault(tmp_path: Path) -> None:
    asking = send_requests(ROOT, ("/bin/false",), {"it": ("http://127.0.0.1:1/", "")}, tmp_path / "log", TIMEOUTS)
    with pytest.raises(InfraError, match="w-0 stopped sending requests"):
        asking.wait_for_success(Deadline.after(30), what="it to answer")


def test_words_of_ssh_in_the_log_are_no_answers(tmp_path: Path) -> None:
    log = tmp_path / "log"
    row = json.dumps({"of": "it", "at": 0, "took": 0, "why": ""})
    log.write_text(f"Connection to 10.0.0.1 closed.\n{row}\n", encoding="utf-8")
    asking = RequestStream(
        send_requests(ROOT, ("/bin/true",), {}, tmp_path / "other", TIMEOUTS).service, log, ("it",), "w-0"
    )
    asking.wait_for_success(Deadline.after(1), what="it to answer")

"""Outages are measured between questions and answers; what was not asked about, or not to the end, is not proof."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import InfraError, ProductError
from harness.kube.resources import POD
from harness.model import Machine
from harness.until import Deadline
from harness.validate.phases import availability
from harness.validate.phases.availability import (
    Availability,
    RequestStream,
    TimedRequest,
    availability_of,
    interrupted,
    read_availability,
    read_requests,
    send_requests,
)
from tests.unit.shipped_timeouts import TIMEOUTS
from tests.unit.validate import guests
from tests.unit.validate.fake_api import Api
from tests.unit.validate.serving import serving

REFUSED = "ConnectionRefusedError: refused"


def rows(*given: tuple[float, float, str]) -> Availability:
    return availability_of("workload", [TimedRequest(*row) for row in given])


def steady(seconds: int) -> list[tuple[float, float, str]]:
    return [(float(at), 0.01, "") for at in range(seconds + 1)]


def test_what_answered_all_the_time_passes() -> None:
    answers = rows(*steady(21))
    assert (answers.asked, answers.failed, answers.outage, answers.lasts) == (22, 0, 0.0, False)


def test_an_outage_lasts_from_the_first_bad_question_to_the_next_good_answer() -> None:
    answers = rows((0, 0.1, ""), (1, 3.0, "TimeoutError: timed out"), (4, 0.0, REFUSED), (4.5, 0.2, ""), (5, 0.1, ""))
    assert answers.outage == pytest.approx(3.7)
    assert (answers.failed, answers.why) == (2, "TimeoutError: timed out")


def test_the_longest_outage_counts() -> None:
    answers = rows((0, 0, REFUSED), (1, 0, ""), (2, 0, REFUSED), (6, 0, ""), (7, 0, REFUSED), (8, 0, ""))
    assert answers.outage == pytest.approx(4)


def test_an_outage_within_the_limit_passes_and_is_told() -> None:
    answers = rows(*steady(10), (11, 0, REFUSED), (13, 0, ""), *((at, 0.01, "") for at in range(14, 22)))
    assert answers.summary(5.0) == (
        "workload: longest outage 2.0 s (limit 5 s), 1 of 21 requests failed in 21 s; "
        f"the longest outage began with: {REFUSED}"
    )


def test_a_long_time_without_questions_fails() -> None:
    answers = rows((0, 0.1, ""), (1, 0.1, ""), (19, 0.1, ""), (20, 0.1, ""))
    assert answers.unwatched == pytest.approx(17.9)
    assert "no request was sent for 18 s" in answers.summary(5)


def test_lines_of_others_and_a_last_one_that_was_cut_off_do_not_count() -> None:
    good = json.dumps({"of": "workload", "at": 0.5, "took": 0.1, "why": ""})
    text = f'Warning: added a key\n{{"started": 1}}\n{good}\n{{"of": "workload", "at"'
    assert read_requests(text) == [("workload", TimedRequest(0.5, 0.1, ""))]
    assert read_availability(text)["workload"].asked == 1


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


def judged(answers: Availability, *, seconds: float = 20.0, limit: float | None = 5.0) -> list[str]:
    return [finding.expected for finding in interrupted(answers, phase_seconds=seconds, limit=limit)]


def test_an_outage_beyond_the_limit_fails() -> None:
    answers = rows(*steady(10), (11, 0, REFUSED), (17, 0, ""), *((at, 0.01, "") for at in range(18, 22)))
    assert judged(answers) == ["no outage longer than 5 s"]
    assert judged(answers, limit=None) == []


def test_what_never_answered_fails_without_any_limit_too() -> None:
    assert judged(rows((0, 0, REFUSED), (21, 0, REFUSED)), limit=None) == ["successful requests during the phase"]


def test_what_does_not_answer_at_the_end_fails() -> None:
    assert judged(rows(*steady(20), (21, 0, REFUSED))) == ["an answer after the phase"]


def test_questions_that_ended_before_the_phase_fail() -> None:
    assert judged(rows(*steady(12))) == ["requests during all 20 s of the phase"]


def test_an_address_that_answered_all_the_time_passes() -> None:
    assert judged(rows(*steady(21))) == []


def test_an_outage_within_the_limit_passes() -> None:
    assert judged(rows(*steady(10), (11, 0, REFUSED), (13, 0, ""), *((at, 0.01, "") for at in range(14, 22)))) == []


def test_a_long_time_without_requests_fails() -> None:
    seen = rows((0, 0.1, ""), (1, 0.1, ""), (19, 0.1, ""), (20, 0.1, ""))
    assert judged(seen) == ["a request at least every 5 s"]


def placed(nodes: tuple[str, ...], **given: Any) -> tuple[str, Api]:
    api: Any = Api(**given)
    return availability.place_workload(api, "mirror/agnhost:1", nodes, Deadline.after(0.2)), api


def test_two_pods_stand_behind_a_service_and_are_evicted_one_at_a_time() -> None:
    address, api = placed(("cp-0", "w-0"))
    assert address == "10.95.1.2"
    deployment, budget = api.made["Deployment"]["spec"], api.made["PodDisruptionBudget"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["replicas"] == 2
    assert budget == {"maxUnavailable": 1, "selector": {"matchLabels": labels}}
    assert api.made["Service"]["spec"]["selector"] == deployment["selector"]["matchLabels"] == labels
    tolerated = [one["key"] for one in deployment["template"]["spec"]["tolerations"]]
    assert tolerated == ["node-role.kubernetes.io/control-plane"], "and not the taint of a node that is drained"


def test_on_a_single_node_nothing_keeps_it_from_being_drained() -> None:
    assert "PodDisruptionBudget" not in placed(("cp-0",))[1].made


def test_a_workload_that_does_not_run_is_the_products_fault_with_its_events() -> None:
    pods = {POD: [{"metadata": {"name": "it"}, "status": {}}]}
    with pytest.raises(ProductError, match="2 pods of vmatrix-life/keeps-answering to be ready: 1 ready") as failed:
        placed(("cp-0", "w-0"), ready=1, lists=pods)
    assert failed.value.detail == "it (None):\n  Warning Failed: it has no image"

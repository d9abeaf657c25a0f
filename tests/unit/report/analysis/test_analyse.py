"""A history's judgement as a whole: what failed, whether it is known, what did not run, what fails alike."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from harness.history.lines import forget
from harness.history.record import AttemptRecord, Record, RunOrigin, StepRecord
from harness.model import Outcome
from harness.report.analysis.analyse import Analysis, RecordFilter, analyse
from harness.report.analysis.nights import nights_of
from harness.report.analysis.planned import Counted, Planned
from harness.spec.models import QuarantineEntry
from tests.unit.history import synthetic
from tests.unit.history.make import CELL, checked, record
from tests.unit.history.synthetic import NOW

DNS = "network: test_dns"
READY = "nodes: test_ready"


def judged(records: list[Record], planned: Planned | None = None, **selection: Any) -> Analysis:
    """Return the judgement on some records."""
    return analyse(records, planned or Planned(every_hours=24.0), RecordFilter(**selection), NOW)


def nights(letters: str, said: str = "E  no answer", title: str = DNS, cell: str = CELL) -> list[Record]:
    """Return a night for each letter: p passed, f failed in a check, i by infra, . missing."""
    made = []
    for night, letter in enumerate(letters):
        if letter == "p":
            made.append(checked(record(night, cell, of=len(letters)), {READY: "p", title: "p"}))
        elif letter == "f":
            made.append(checked(record(night, cell, of=len(letters), outcome="failed"), {READY: "p", title: "f"}, said))
        elif letter == "i":
            steps = (StepRecord("provision", "failed", 9.0, blame="infra", message="no room"),)
            made.append(record(night, cell, of=len(letters), outcome="failed", blame="infra", steps=steps))
    return made


def test_an_empty_history_says_nothing() -> None:
    found = judged([])
    assert (found.nights, found.cells, found.clusters, found.last) == ((), (), (), None)
    assert found.freshness.stale
    assert found.coverage.cells == Counted(0, 0, 0)


def test_a_failure_that_no_night_knew_is_new() -> None:
    (cell,) = judged(nights("ppppf")).cells
    assert (cell.news, cell.habit, cell.streak, cell.last and cell.last.blame) == ("new", "new", 1, "product")
    (check,) = cell.checks.stories
    assert (check.title, check.news, check.history, check.outcome) == (DNS, "new", "ppppf", "failed")
    assert cell.checks.passed == (READY,)


def test_a_failure_that_goes_on_is_known() -> None:
    (cell,) = judged(nights("ppfff")).cells
    assert (cell.news, cell.habit, cell.streak) == ("known", "always", 3)
    assert cell.since is not None
    assert (cell.since.good, cell.since.bad) == (1, 2)


def test_another_failure_of_a_known_cell_is_new() -> None:
    records = [*nights("pff"), checked(record(3, of=4, outcome="failed"), {DNS: "p", READY: "f"}, "E  kubelet died")]
    (cell,) = judged(records).cells
    assert (cell.news, cell.habit) == ("new", "always")
    assert {c.title: c.news for c in cell.checks.stories} == {DNS: "fixed", READY: "new"}


def test_what_comes_back_after_long_is_new_again() -> None:
    assert judged(nights("f" + "p" * 31 + "f")).cells[0].news == "new"
    assert judged(nights("f" + "p" * 20 + "f")).cells[0].news == "known"


def test_what_passes_again_is_fixed() -> None:
    (cell,) = judged(nights("ppfffp")).cells
    assert (cell.news, cell.habit, cell.since) == ("fixed", "sometimes", None)


def test_a_night_of_the_infrastructure_is_not_the_codes() -> None:
    (cell,) = judged(nights("pppif")).cells
    assert cell.since is not None
    assert (cell.since.good, cell.since.bad, cell.since.between) == (2, 4, 1)


def test_failures_of_several_cells_that_say_the_same_are_a_cluster() -> None:
    one = nights("ppf", "E  no answer from 10.0.0.1 in 5 s", cell="a")
    other = nights("pff", "E  no answer from 10.9.0.4 in 77 s", cell="b")
    lone = nights("fpp", "E  disk full", cell="c")
    first, second = judged([*one, *other, *lone]).clusters
    assert (set(first.cells), set(first.now), first.runs, first.first, first.last) == ({"a", "b"}, {"a", "b"}, 3, 1, 2)
    assert first.blames == {"product": 3}
    assert (set(second.cells), second.now) == ({"c"}, ())


def test_of_a_failing_step_only_the_inner_one_is_told() -> None:
    steps = (
        StepRecord("provision", "failed", 9.0, blame="infra", message="no room"),
        StepRecord("provision / machines", "failed", 9.0, blame="infra", message="no room"),
    )
    (cell,) = judged([record(outcome="failed", blame="infra", steps=steps)]).cells
    assert [f.title for f in cell.failures[0]] == ["provision / machines"]


def test_only_the_attempt_that_counts_fails() -> None:
    attempts = (AttemptRecord(1, Outcome.FAILED, 9.0, "infra"), AttemptRecord(2, Outcome.PASSED, 9.0))
    steps = (StepRecord("provision", "failed", 9.0, 1, "infra", "no room"), StepRecord("provision", "passed", 9.0, 2))
    (cell,) = judged([record(steps=steps, attempts=attempts)]).cells
    assert (cell.failing, cell.failures) == (False, {})


def test_cells_of_one_pipeline_are_one_night() -> None:
    where = RunOrigin(pipeline="9")
    records = [record(0, "a", run="run1", where=where), record(0, "b", run="run2", where=where)]
    assert [sorted(n.cells) for n in nights_of(records)] == [["a", "b"]]


def test_of_two_records_of_a_cell_in_a_night_the_later_counts() -> None:
    first = record(0, outcome="failed", attempts=(AttemptRecord(1, Outcome.FAILED),))
    both = (AttemptRecord(1, Outcome.FAILED), AttemptRecord(2, Outcome.PASSED))
    again = replace(first, id="again", outcome=Outcome.PASSED, blame="", attempts=both)
    for order in ([first, again], [again, first]):
        assert nights_of(order)[0].cells[CELL].outcome == "passed"


def test_nights_that_are_missing_are_named() -> None:
    found = judged(nights("ppp..pp")).freshness
    assert found.missing == (date(2026, 11, 17), date(2026, 11, 18))
    assert (found.stale, found.hours_ago) == (False, 8.0)


def test_a_schedule_that_stopped_is_seen() -> None:
    found = analyse(nights("ppp"), Planned(every_hours=24.0), RecordFilter(), NOW + timedelta(days=3)).freshness
    assert (found.stale, found.hours_ago) == (True, 80.0)
    assert found.missing == (date(2026, 11, 21), date(2026, 11, 22))  # the next is not late yet


def test_a_tier_without_a_period_is_never_late() -> None:
    found = analyse(nights("p"), Planned(), RecordFilter(), NOW + timedelta(days=30)).freshness
    assert (found.stale, found.missing) == (False, ())


def test_what_is_planned_and_did_not_run_is_told() -> None:
    records = [*nights("ppp", cell="a"), *nights("pp.", cell="b"), record(2, "d", of=3, outcome="not started")]
    planned = Planned({name: {"os": name} for name in "abcd"})
    found = judged(records, planned)
    assert [(n.cell, n.last, n.why) for n in found.not_run] == [
        ("c", -1, "never recorded"),
        ("b", 1, "no record for 1 night"),
        ("d", 2, "not started"),
    ]
    assert found.coverage.cells == Counted(4, 1, 1)


def test_coverage_counts_pairs_of_values() -> None:
    planned = Planned(
        {"a": {"os": "x", "cni": "1"}, "b": {"os": "x", "cni": "2"}, "c": {"os": "y", "cni": "2"}},
        {"os": ("x", "y", "z"), "cni": ("1", "2")},
    )
    records = [record(0, "a"), record(0, "b", outcome="failed")]
    found = judged(records, planned).coverage
    assert found.pairs == Counted(3, 2, 1)
    assert found.values["os"] == {"x": Counted(2, 2, 1), "y": Counted(1, 0, 0)}


def test_a_cell_that_the_plan_lost_is_still_told() -> None:
    cells = {c.id: c.planned for c in judged(nights("pp", cell="old"), Planned({"new": {}})).cells}
    assert cells == {"new": True, "old": False}


def test_most_of_a_night_failing_by_the_infrastructure_is_an_outage() -> None:
    failing = [record(0, f"c{n}", outcome="failed", blame="infra" if n < 3 else "product") for n in range(5)]
    assert judged(failing).nights[0].outage
    assert not judged(failing[2:]).nights[0].outage


def entry(**more: Any) -> QuarantineEntry:
    """Return a quarantine entry of all cells."""
    given = {"cell": "*", "issue": "https://lab.invalid/1", "reason": "x", "until": NOW.date() + timedelta(5), **more}
    return QuarantineEntry(**given)


def test_quarantine_is_told_with_what_it_excuses() -> None:
    planned = Planned(quarantine=(entry(check="network: *"), entry(cell="gone-*"), entry(check="nodes: *")))
    found = {q.entry.check or q.entry.cell: q for q in judged(nights("p" * 9 + "ff"), planned).quarantine}
    assert (found["network: *"].failed, found["network: *"].ran, found["network: *"].stale) == (2, 10, False)
    assert found["network: *"].days_left == 5
    assert found["gone-*"].stale
    assert (found["nodes: *"].failed, found["nodes: *"].stale) == (0, True)


def test_a_step_that_became_slower_is_told() -> None:
    def steps(seconds: float) -> tuple[StepRecord, ...]:
        return (StepRecord("provision", "passed", 20.0), StepRecord("deploy", "passed", seconds))

    took = [100.0] * 12 + [150.0] * 3
    records = [record(n, of=15, steps=steps(s), seconds=20 + s) for n, s in enumerate(took)]
    found = judged(records)
    assert [(s.step, s.trend.usual, s.trend.now) for s in found.slower] == [("deploy", 100, 150), ("", 120, 170)]
    assert [s.name for s in found.cells[0].steps] == ["provision", "deploy"]


def test_what_is_not_in_the_steps_are_the_checks() -> None:
    made = record(steps=(StepRecord("deploy", "passed", 60.0),), seconds=100.0, counts={"passed": 3})
    assert {s.name: s.seconds for s in judged([made]).cells[0].steps} == {"deploy": (60.0,), "checks": (40.0,)}


def test_old_records_without_details_still_tell_what_failed() -> None:
    records = [forget(r) for r in nights("pppf")] + nights("....f")[-1:]
    records = [replace(r, where=replace(r.where, pipeline=str(n))) for n, r in enumerate(records)]
    (cell,) = judged(records).cells
    assert (cell.news, cell.streak) == ("known", 2)
    assert cell.checks.stories[0].history == "...ff"


def test_of_records_without_details_a_check_that_did_not_fail_passed() -> None:
    known = [replace(r, counts={"passed": 1}) for r in nights("fpppfpp" + "p" * 4)]
    whole = [forget(r) for r in known[:7]] + known[7:]
    assert judged(whole).cells[0].checks.stories[0].history == "fpppfpp" + "p" * 4
    # one that came later did not pass before it was there
    late = nights("pppp", title=READY)[:2] + nights("pppf")[2:]
    late = [forget(replace(late[0], counts={"passed": 1})), *late[1:]]
    assert judged(late).cells[0].checks.stories[0].history == "..pf"


@pytest.mark.parametrize(
    ("selection", "left"),
    [
        ({}, 6),
        ({"branch": "main"}, 4),
        ({"branch": "topic"}, 2),
        ({"tier": "mr"}, 1),
        ({"infra": "kubevirt"}, 1),
        ({"days": 2.0}, 3),
    ],
)
def test_only_what_is_asked_for_is_looked_at(selection: dict[str, Any], left: int) -> None:
    records = [record(n, f"c{n}", of=4) for n in range(4)]
    records += [record(0, "t0", of=4, where=RunOrigin(branch="topic"), run="t0", tier="mr")]
    records += [record(3, "t1", of=4, where=RunOrigin(branch="topic"), run="t1", infra="kubevirt")]
    assert sum(len(n.cells) for n in judged(records, **selection).nights) == left


def test_a_merge_requests_pipeline_is_held_against_the_branch_before_it() -> None:
    main = nights("ppff")
    topic = replace(
        main[3], id="mr", where=RunOrigin(branch="topic", pipeline="777"), tier="mr", started=main[3].finished
    )
    later = replace(record(9, of=8), where=RunOrigin(branch="main", pipeline="later"))
    found = judged([*main, topic, later], branch="main", focus="777")
    assert found.nights[-1].key == "777"
    assert found.cells[0].news == "known"
    assert "later" not in [n.key for n in found.nights]


def test_a_merge_request_from_a_forks_main_is_not_main() -> None:
    main = RunOrigin(branch="main", pipeline="1")
    fork = replace(main, merge_request="5", pipeline="2")
    records = [record(0, of=2, where=main), record(1, of=2, where=fork)]
    assert [n.key for n in judged(records, branch="main", merge_requests=False).nights] == ["1"]
    assert [n.key for n in judged(records, branch="main").nights] == ["1", "2"]


def test_a_smoke_cell_that_kept_the_night_from_coming_is_its_night() -> None:
    smoke = replace(record(1, of=2, outcome="failed", tier="smoke"), where=RunOrigin(pipeline="2", source="schedule"))
    push = replace(smoke, id="push", where=RunOrigin(pipeline="3", source="push"))
    records = [record(0, of=2), smoke, push]
    assert [n.key for n in judged(records, tier="nightly", scheduled=True).nights] == ["100", "2"]
    assert [n.key for n in judged(records, tier="nightly").nights] == ["100"]


def test_a_pipeline_without_any_record_is_no_other_ones_night() -> None:
    assert judged(nights("ppf"), focus="777").nights == ()


def test_failures_without_a_word_are_no_cluster_of_all() -> None:
    failed = record(0, "a", outcome="failed"), record(0, "b", outcome="failed")
    records = [checked(failed[0], {DNS: "f"}, ""), checked(failed[1], {READY: "f"}, "")]
    assert {c.signature for c in judged(records).clusters} == {DNS, READY}


def test_the_synthetic_year_is_judged_as_it_was_made() -> None:
    found = synthetic.analysis(120, 30, 5)
    assert len(found.freshness.missing) == 3
    assert sum(n.outage for n in found.nights) == 1
    always = [c for c in found.tonight if c.habit == "always"]
    assert all(c.axes["topology"] == "cp3-etcd3-w2" and c.axes["proxy"] == "nftables" for c in always)
    assert any(c.news == "new" for c in found.tonight)
    assert found.slower or not [c for c in found.cells if "c3w2" in c.id and "-fl-" in c.id]
    assert found.not_run[0].last == -1


def by_hand(made: Record) -> Record:
    return replace(made, where=replace(made.where, pipeline=""))


def test_runs_by_hand_are_no_nights() -> None:
    runs = [by_hand(made) for made in nights("ppp")]
    later = NOW + timedelta(days=30)
    alone = analyse(runs, Planned(every_hours=24.0), RecordFilter(), later)
    assert (alone.unit, alone.freshness.stale, alone.freshness.missing) == ("run", False, ())
    scheduled = nights("ppp")
    later = NOW + timedelta(days=1)
    beside = analyse([*scheduled[:2], by_hand(scheduled[2])], Planned(every_hours=24.0), RecordFilter(), later)
    assert (beside.unit, beside.freshness.last) == ("run", scheduled[1].started)
    assert beside.freshness.missing != ()
    assert analyse(scheduled, Planned(), RecordFilter(), NOW).unit == "night"

"""A night with planted faults: each is named with its values, and with the commit that it came with."""

from __future__ import annotations

import sys

import pytest

from harness.errors import EXIT_OK, EXIT_PRODUCT
from harness.report.results import RunResult
from harness.report.suspects import of_run
from harness.rundir import SUMMARY
from tests.culprit.project import FAULTS, FOLLOW_UPS, NightProject


def failing(result: RunResult) -> dict[str, list[dict[str, str]]]:
    """Return the values of the cells in which each check failed, by its title."""
    found: dict[str, list[dict[str, str]]] = {}
    for seen in of_run(result):
        for title, _ in seen.failed:
            found.setdefault(title, []).append(dict(seen.values))
    return found


def test_faults_are_named_followed_up_and_bisected(project: NightProject, capsys: pytest.CaptureFixture[str]) -> None:
    code, before = project.night()
    assert (code, failing(before)) == (EXIT_OK, {})
    project.plant()
    code, night = project.night()
    assert code == EXIT_PRODUCT

    seen = failing(night)
    assert seen.keys() == {fault.check for fault in FAULTS}, "each check fails by its fault, and no other does"
    for fault in FAULTS:
        for values in seen[fault.check]:
            assert fault.values.items() <= values.items(), fault.title

    planted = {
        tuple(sorted(fault.values.items())): (fault.check, fault.title, fault.owner) for fault in FAULTS if fault.values
    }
    named = {
        tuple(sorted(one.values)): (*one.checks, one.title.partition(" ")[2], *one.owners) for one in night.culprits
    }
    assert named == planted
    summary = (night.directory / SUMMARY).read_text(encoding="utf-8")
    for one in night.culprits:
        assert f"since {one.title}" in summary
    assert 0 < len(night.further) <= FOLLOW_UPS
    bisected = [*project.root.glob("runs/bisect/*/*/results.jsonl")]
    minutes = sum(session.seconds for session in (*before.sessions, *night.sessions)) / 60
    with capsys.disabled():
        sys.stdout.write(
            f"\n{len(before.cells)} cells a night, {len(night.further)} further ones, {len(bisected)} runs to bisect; "
            f"{minutes:.0f} minutes without these\n{summary.partition('## Suspects')[2].partition('##')[0].strip()}\n"
        )

"""Support and quarantine: until the last day, and longer only with a reason."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from harness.paths import MATRIX, packaged_dir
from harness.spec import load_spec
from harness.streams import TOLD
from tests.unit.spec.conftest import TODAY, edit, mistakes


def test_support_counts_until_its_last_day(matrix: Path) -> None:
    assert mistakes(matrix, date(2026, 12, 31)) == []
    assert [line.split(": ", 2)[1] for line in mistakes(matrix, date(2027, 7, 1))] == [
        "axes[0].values[2].support",
        "quarantine[0].until",
    ]


def test_a_value_may_stay_longer_with_a_reason(matrix: Path) -> None:
    extended = "until: 2026-06-30, extended: {until: 2027-01-31, why: customers have it}"
    edit(matrix / "axes.yml", "until: 2027-06-30", extended)
    assert mistakes(matrix) == []
    (matrix / "quarantine.yml").write_text("quarantine: []\n", encoding="utf-8")
    (said,) = mistakes(matrix, date(2027, 2, 1))
    assert said.endswith("out of support since 2027-01-31; remove the value, or extend it again")


def test_an_extended_value_keeps_its_image(matrix: Path) -> None:
    edit(matrix / "images.yml", "2029-05-31", "2026-05-31")
    (said,) = mistakes(matrix)
    assert "images[1].end_of_life: out of support since 2026-05-31" in said
    support = "{from: 2020-01-01, until: 2026-05-31, extended: {until: 2027-01-31, why: customers have it}}"
    edit(matrix / "axes.yml", "needs: [internet]", f"needs: [internet], support: {support}")
    assert mistakes(matrix) == []


FAR = date(2031, 1, 1)  # when nothing that ships is supported any more


def test_what_has_expired_is_told_once_where_it_is_not_refused(
    matrix: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(TOLD, "")
    for _ in range(2):
        assert load_spec(matrix, today=date(2027, 1, 1), expired_ok=True).quarantine
    assert capsys.readouterr().err == (
        f"warning: {matrix / 'quarantine.yml'}:2: quarantine[0].until: expired on 2026-12-31; "
        "remove the entry, or set a later `until` (https://example.org/issues/1)\n"
    )


@pytest.mark.parametrize("amended", [False, True])
def test_packaged_dates_are_told_and_refuse_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], amended: bool
) -> None:
    monkeypatch.setenv(TOLD, "")
    matrix = tmp_path / MATRIX
    matrix.mkdir()
    if amended:
        (matrix / "axes.yml").write_text("extends: default\n", encoding="utf-8")
    assert mistakes(matrix, FAR) == []
    said = capsys.readouterr().err.splitlines()
    assert all(line.startswith(f"warning: {packaged_dir() / MATRIX}/") for line in said)
    assert {"axes.yml", "images.yml"} == {Path(line.split(":")[1].strip()).name for line in said}
    load_spec(matrix, today=FAR, expired_ok=True)
    assert capsys.readouterr().err == ""


def test_a_project_refuses_what_it_says_of_a_packaged_value(matrix: Path, tmp_path: Path) -> None:
    own = tmp_path / "own" / MATRIX
    own.mkdir(parents=True)
    value = '{id: "1.37.2", support: {from: 2026-01-01, until: 2026-02-01}}'
    (own / "axes.yml").write_text(
        f"extends: default\naxes:\n  - name: kubernetes\n    values: [{value}]\n", encoding="utf-8"
    )
    (said,) = mistakes(own)
    assert "axes.yml:4: axes[0].values[" in said
    assert "out of support since 2026-02-01" in said


def test_vmatrix_refuses_its_own_packaged_dates() -> None:
    """In its checkout, they are the project's."""
    assert any("out of support" in line for line in mistakes(packaged_dir() / MATRIX, FAR))


@pytest.mark.parametrize("today", [date(1970, 1, 1), date(2026, 8, 25)])
def test_a_clock_that_is_wrong_is_named_and_no_entry(matrix: Path, today: date) -> None:
    (said,) = mistakes(matrix, today)
    assert said == (
        f"quarantine.yml:2: quarantine[0]: cannot be judged: the clock of this host says {today}, before 2026-08-26; "
        "set the clock"
    )
    assert mistakes(matrix, TODAY) == []

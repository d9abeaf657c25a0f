"""Support and quarantine: until the last day, and longer only with a reason."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from tests.unit.spec.conftest import edit, mistakes


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

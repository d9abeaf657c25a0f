"""A waiver takes away what is against its control alone, and says so."""

from __future__ import annotations

from harness.spec.controls import Waiver
from harness.validate.findings import Mismatch, Unjudged, real
from harness.validate.judge.controls import against, unwaived

ONE = Mismatch("here", "a", "b")
WAIVERS = (Waiver(control="1.2.9", reason="elsewhere"),)


def test_what_is_only_against_waived_controls_is_not_judged() -> None:
    (found,) = unwaived(against("1.2.9", [ONE]), WAIVERS)
    assert isinstance(found, Unjudged)
    assert "CIS 1.2.9 (Ensure that the admission control plugin EventRateLimit is set): waived: elsewhere" in str(found)


def test_everything_else_stays() -> None:
    kept = unwaived([*against("1.2.9 1.2.1", [ONE]), *against("1.2.1", [ONE]), ONE], WAIVERS)
    assert list(map(str, real(kept))) == [
        "CIS 1.2.9, 1.2.1: here: expected a; saw b",
        "CIS 1.2.1: here: expected a; saw b",
        "here: expected a; saw b",
    ]

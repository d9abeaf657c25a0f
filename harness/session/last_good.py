"""Between which commits a cell began to fail, and with what, by the history."""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import BadInput
from harness.history.record import Record

PASSED, FAILED, PRODUCT = "passed", "failed", "product"


def good_and_bad(records: Sequence[Record], cell: str, good: str | None, bad: str | None) -> tuple[str, str]:
    """Return the last commit at which a cell passed, and the first one after it at which the product failed.

    Args:
        records: the history, oldest first.  good, bad: given by a person, and kept.

    Raises:
        BadInput: the history does not say.
    """
    own = [r for r in records if r.cell == cell and r.where.commit and not r.where.changed]
    passed = [number for number, record in enumerate(own) if record.outcome == PASSED]
    since = own[passed[-1] + 1 :] if passed else own
    failed = [record for record in since if record.outcome == FAILED and record.blame == PRODUCT]
    good = good or (own[passed[-1]].where.commit if passed else None)
    bad = bad or (failed[0].where.commit if failed else None)
    for name, found in (("--good", good), ("--bad", bad)):
        if found is None:
            what = "passed" if name == "--good" else "failed since by the product's fault"
            raise BadInput(
                f"the history has no run in which {cell} {what}",
                hint=f"name the commit: {name} REV; or add runs to the history: `vmatrix history add`",
            )
    assert good is not None  # noqa: S101 - refused above
    assert bad is not None  # noqa: S101 - refused above
    return good, bad


def first_failure_at(records: Sequence[Record], cell: str, commit: str) -> str:
    """Return what failed first in the cell's last failure by the product at a commit; "" where the history has none."""
    own = [r for r in records if (r.cell, r.where.commit, r.outcome, r.blame) == (cell, commit, FAILED, PRODUCT)]
    if not own:
        return ""
    last = own[-1]
    steps = (f"{one.name}: {one.message}" for one in last.steps if one.outcome == FAILED and one.message)
    checks = (f"{one.checks[0]}: {one.message}" for one in last.notes if one.outcome == FAILED and one.checks)
    return next((said.partition("\n")[0] for said in (*steps, *checks)), "")

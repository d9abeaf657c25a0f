"""Checks that are not run because the product leaves them out, and what checks do not judge in a cluster."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

from harness.plugin.items import check_name, is_step, suite_of
from harness.plugin.state import PLAN, cell_of
from harness.report.cell import LEFT_OUT, NOT_JUDGED
from harness.spec.left_out import fits

if TYPE_CHECKING:
    from harness.spec.models.leaves import ProductChecks

PARTS = "not_judged"  # a check's property: the parts of it that were not judged, a line each


def leave_out(item: pytest.Item) -> None:
    """Skip a check that the product leaves out, before anything is looked up for it."""
    for entry in checks_of(item).leave_out if _is_check(item) else ():
        if fits(f"{suite_of(item)}: {check_name(item)}", entry.check):
            pytest.skip(f"{LEFT_OUT}{entry.reason}")


def judged(item: pytest.Item) -> Generator[None, object, object]:
    """Run a check, and write down what it does not judge; if the product requires all, that is a failure."""
    if not _is_check(item):
        return (yield)
    from harness.validate.findings import NotJudged, parts_not_judged

    with parts_not_judged() as parts:
        try:
            done = yield
        except NotJudged as why:
            parts.append(str(why))
            if not checks_of(item).require_all:
                pytest.skip(f"{NOT_JUDGED}{why}")
    if parts and checks_of(item).require_all:
        said = "\n".join(f"  - {part}" for part in parts)
        pytest.fail(f"not judged, but product.yml has `checks: {{require_all: true}}`:\n{said}", pytrace=False)
    if parts:
        item.user_properties.append((PARTS, parts))
    return done


def checks_of(item: pytest.Item) -> ProductChecks:
    """Return which checks judge the product."""
    spec, cell = item.config.stash[PLAN].project.spec, cell_of(item)
    return spec.product_of(cell.values if cell is not None else {}).checks


def _is_check(item: pytest.Item) -> bool:
    return PLAN in item.config.stash and cell_of(item) is not None and not is_step(item)

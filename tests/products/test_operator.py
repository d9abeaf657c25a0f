"""Declared objects are a product: the cells of examples/operator, every suite green, and no alarm without a fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.products.conftest import NOT_OFFERED, Example, copied

SUITES = ("nodes", "cluster", "network", "conformance")
SKIPPED = tuple(f"skipped: {reason}" for reason in NOT_OFFERED)


@pytest.fixture
def operator(infra: str, tmp_path: Path) -> Example:
    """The project, and the infra cluster for its cells."""
    assert infra
    return copied("operator", tmp_path)


@pytest.mark.parametrize(("scenario", "phases"), [("fresh", ["deploy"]), ("reset", ["deploy", "reset", "deploy-2"])])
def test_a_cell_of_the_operator_is_green(scenario: str, phases: list[str], operator: Example) -> None:
    done = operator.run(f"*-{scenario}-*")
    assert done.status == 0, done.output
    assert {name.partition(": step ")[2] for name in done.checks} >= set(phases)
    for suite in (*SUITES, *(["phases"] if len(phases) > 1 else [])):
        assert done.passed_in(suite) > 0, suite
    assert all(said.startswith(SKIPPED) for said in done.not_passed.values()), done.not_passed
    assert done.undeclared == set()

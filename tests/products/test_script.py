"""A shell script is a product: its three phases in real cells, every suite green, and no alarm without a fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.products.conftest import NOT_OFFERED, UNDECLARED, Example, copied

SUITES = ("nodes", "cluster", "network", "conformance")
SKIPPED = tuple(f"skipped: {reason}" for reason in NOT_OFFERED)
# Not judged of this product: its nodes reach the API at the control plane's address, and at none of their own.
NOT_JUDGED = {"out": {"phases: test_api_keeps_answering_at_a_nodes_own_address (after scale-out)"}}


@pytest.fixture
def script(infra: str, tmp_path: Path) -> Example:
    """The project, and the infra cluster for its cells."""
    assert infra
    return copied("script", tmp_path)


@pytest.mark.parametrize(
    ("scenario", "phases"),
    [("fresh", ["deploy"]), ("out", ["deploy", "scale-out"]), ("reset", ["deploy", "reset", "deploy-2"])],
)
def test_a_cell_of_the_script_is_green(scenario: str, phases: list[str], script: Example) -> None:
    done = script.run(f"*-{scenario}-*")
    assert done.status == 0, done.output
    assert {name.partition(": step ")[2] for name in done.checks} >= set(phases)
    for suite in (*SUITES, *(["phases"] if len(phases) > 1 else [])):
        assert done.passed_in(suite) > 0, suite
    others = {name: said for name, said in done.not_passed.items() if not said.startswith(SKIPPED)}
    assert others.keys() == NOT_JUDGED.get(scenario, set()), others
    assert all(said.startswith("skipped: not judged: ") for said in others.values())
    assert done.undeclared == UNDECLARED
    (log,) = done.directory.glob("*/logs/deploy.log")
    assert "TASK [kubeadm init on cp-0]" in log.read_text(encoding="utf-8")

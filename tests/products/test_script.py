"""A shell script is a product: its three phases in real cells, every suite green, and nothing judged that is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.products.conftest import Example, copied

SUITES = ("nodes", "cluster", "network", "conformance")
LEFT_OUT = "not run: image "  # a conformance spec whose image the mirror does not have


@pytest.fixture
def script(infra: str, tmp_path: Path) -> Example:
    """The project, and the infra cluster for its cells."""
    assert infra
    return copied("script", tmp_path)


@pytest.mark.parametrize(("scenario", "phases"), [("fresh", 1), ("out", 2), ("reset", 3)])
def test_a_cell_of_the_script_is_green(scenario: str, phases: int, script: Example) -> None:
    done = script.run(f"*-{scenario}-*")
    assert done.status == 0, done.output
    steps = [name for name in done.checks if ": step " in name]
    assert sum("deploy" in name or "scale-out" in name or "reset" in name for name in steps) == phases
    for suite in (*SUITES, *(["phases"] if phases > 1 else [])):
        assert done.passed_in(suite) > 0, suite
    unexpected = {name: said for name, said in done.not_passed.items() if LEFT_OUT not in said}
    assert unexpected == {}
    (log, *_) = done.directory.glob("*/logs/deploy.log")
    assert "TASK [kubeadm init on cp-0]" in log.read_text(encoding="utf-8")

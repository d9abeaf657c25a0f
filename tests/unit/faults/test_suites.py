"""Which checks are asked while a fault lasts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faults.suites import SUITES, Checks, Said, modules

ADD_ONS = (
    "tests.cells.cluster.test_metrics",
    "tests.cells.cluster.test_storage",
    "tests.cells.network.test_ingress",
    "tests.cells.network.test_load_balancer",
    "tests.cells.policies.test_policies",
)


@pytest.mark.parametrize("add_ons", [True, False])
def test_only_checks_of_add_ons_are_left_out_for_a_fault_that_needs_none(
    add_ons: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def ask(_: Any, name: str, module: Any, __: Any) -> list[Said]:
        asked.append(module.__name__)
        return []

    monkeypatch.setattr("tests.faults.suites.gather", lambda _: None)
    monkeypatch.setattr("tests.faults.suites._Look.ask", ask)
    monkeypatch.setattr(Checks, "_applies", lambda *_: True)
    Checks(None, None).failures(_Guest(), SUITES, add_ons=add_ons)  # type: ignore[arg-type]
    every = {module.__name__ for suite in SUITES for module in modules(suite)}
    assert set(asked) == every - (set() if add_ons else set(ADD_ONS))


class _Guest:
    timeouts = None

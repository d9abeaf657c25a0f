"""`vmatrix run`: which runs are followed up by further cells, and what their exit code is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from harness import proc
from harness.cli import app, run
from harness.errors import EXIT_INFRA, EXIT_LEAKED, EXIT_OK, EXIT_PRODUCT, BadInput
from harness.session import RunPlan, plan_run
from harness.session.follow_up import Pursuit
from harness.spec.options import RunRequest


def planned(tier: str = "smoke", *, further: int = 2, bisect: bool = False) -> RunPlan:
    plan = plan_run(RunRequest(tier=tier))
    spec = plan.project.spec
    tiers = {**spec.tiers, tier: spec.tiers[tier].model_copy(update={"follow_up": further, "bisect": bisect})}
    return replace(plan, project=replace(plan.project, spec=spec.model_copy(update={"tiers": tiers})))


@pytest.mark.parametrize(
    ("given", "cells", "follows"),
    [
        ({"tier": "smoke"}, (), True),
        ({"tier": "smoke", "night": "2026-11-20"}, (), True),
        ({"tier": "smoke", "shard": "1/2"}, (), True),
        ({"tier": "smoke"}, ("k1363-*",), False),
        *(({"tier": "smoke", name: "x"}, (), False) for name in ("rerun_failed", "into", "failed", "changed_since")),
        *(({"tier": "smoke", name: True}, (), False) for name in ("fail_fast", "shell")),
    ],
)
def test_a_run_of_a_whole_tier_is_followed_up(given: dict[str, Any], cells: Sequence[str], follows: bool) -> None:
    assert run.follows(planned(), given, cells) is follows
    assert not run.follows(planned(further=0), given, cells)
    assert run.follows(planned(further=0, bisect=True), given, cells) is follows


def test_runs_that_are_repeated_have_ids_of_their_own_and_are_not_followed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Sequence[str]] = []

    def repeated(argv: Sequence[str], times: int, *, fail_fast: bool) -> int:
        calls.append(argv)
        return EXIT_OK

    monkeypatch.setattr(run, "repeated", repeated)
    monkeypatch.setattr(run, "plan_run", lambda request: planned())
    done = CliRunner().invoke(app, ["run", "--tier", "smoke", "--repeat", "2"], catch_exceptions=False)
    assert done.exit_code == EXIT_OK
    (argv,) = calls
    assert "--run-id" not in argv


@pytest.mark.parametrize(
    ("code", "after", "came_to"),
    [
        (EXIT_OK, None, EXIT_OK),
        (EXIT_PRODUCT, EXIT_OK, EXIT_PRODUCT),
        (EXIT_INFRA, EXIT_OK, EXIT_INFRA),
        (EXIT_PRODUCT, EXIT_LEAKED, EXIT_LEAKED),
        (EXIT_PRODUCT, BadInput("no history", hint="look"), EXIT_PRODUCT),
        (130, None, 130),
        (-15, None, 143),
        (2, None, 2),
    ],
)
def test_what_follows_changes_the_exit_code_only_by_a_leak(
    code: int, after: int | BadInput | None, came_to: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Pursuit, int, bool]] = []

    def pursue(pursuit: Pursuit, most: int, *, bisect: bool) -> int:
        asked.append((pursuit, most, bisect))
        if isinstance(after, BadInput):
            raise after
        assert after is not None
        return after

    monkeypatch.setattr(proc, "attend", lambda *_: code)
    monkeypatch.setattr(run, "pursue", pursue)
    plan = planned(bisect=True)
    assert run.followed(plan, {"tier": "smoke", "infra_name": "mine"}, ["--tier", "smoke"]) == came_to
    assert len(asked) == (after is not None)
    for pursuit, most, bisect in asked:
        assert (pursuit.run, [*pursuit.options], most, bisect) == (plan.run, ["--infra-name", "mine"], 2, True)

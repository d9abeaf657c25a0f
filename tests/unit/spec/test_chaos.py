"""The setting `chaos`: its form, and what can never happen is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from harness.errors import BadInput
from harness.spec.chaos import Blow, blows, refuse_unreachable
from harness.spec.settings import load_settings
from tests.unit.pages import ROOT

STAGES = ("deploy", "reset", "deploy-2")


def test_programs_tasks_and_phases_are_read_in_their_order() -> None:
    found = blows("executor@Join the cluster; manager:deploy-2@Write it, and start;eviction@a : b;")
    assert found == (
        Blow("executor", "deploy", "Join the cluster"),
        Blow("manager", "deploy-2", "Write it, and start"),
        Blow("eviction", "deploy", "a : b"),
    )
    assert blows("; ".join(blow.text for blow in found)) == found
    assert blows(None) == ()


@pytest.mark.parametrize("text", ["executor", "executor@", "etcd@x", "executor:Deploy@x", "executor@x; y", "", " ; "])
def test_another_form_is_refused_as_a_setting(text: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="VMATRIX_CHAOS: ") as caught:
        load_settings(tmp_path, environment={"VMATRIX_CHAOS": text})
    assert caught.value.exit_code == 2


def test_what_cannot_happen_in_a_run_is_refused() -> None:
    refuse_unreachable(None, [], on_host=False)
    refuse_unreachable("executor:reset@x", STAGES, on_host=True)
    for text, stages, on_host, said in (
        ("executor@x", STAGES, False, "pods run elsewhere"),
        ("executor@x", (), True, "no cell of the run has any"),
        ("executor@x; manager:upgrade@y", STAGES, True, "manager:upgrade@y: no cell has a phase upgrade"),
    ):
        with pytest.raises(BadInput, match=said):
            refuse_unreachable(text, stages, on_host=on_host)


def test_the_nightly_run_names_tasks_that_there_are() -> None:
    commands = re.sub(r"\\\n\s*", "", (ROOT / "tox.ini").read_text(encoding="utf-8"))
    named = {blow.task for text in re.findall(r'"VMATRIX_CHAOS=([^"]+)"', commands) for blow in blows(text)}
    files = (ROOT / "playbooks" / "roles").glob("*/tasks/*.yml")
    tasks = {task["name"] for file in files for task in yaml.safe_load(file.read_text(encoding="utf-8"))}
    assert len(named) > 6
    assert named <= tasks

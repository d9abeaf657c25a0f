"""The last lines of a run of cells that was interrupted, as pytest prints them; and its exit code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.paths import project_dir
from harness.plugin.single_process import by_cell
from tests.unit.programs import run_loaded

SIGNALLED = """
import os, signal
from harness import providers
from harness.session import refusals

def open_site(*_, **__):
    os.kill(os.getpid(), signal.{name})

providers.open_site = open_site
refusals.refuse = lambda *_: None
"""
EARLY = """
def pytest_collection_modifyitems():
    raise KeyboardInterrupt
"""


def run(tmp_path: Path, plugin: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the checks of the smoke tier with a plugin that interrupts them."""
    (tmp_path / "interrupting.py").write_text(plugin)
    checks = str(project_dir() / "tests" / "cells")
    argv = [sys.executable, "-m", "pytest", checks, "-p", "no:cacheprovider", "-p", "interrupting", "--tier", "smoke"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("VMATRIX_", "CI_"))}
    return run_loaded(
        [*argv, "--run-id", "abc123", *words],
        cwd=tmp_path,
        env={
            **environment,
            "PYTHONPATH": str(tmp_path),
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "VMATRIX_PROJECT": str(project_dir()),
        },
    )


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_the_last_lines_say_that_it_was_interrupted_and_what_did_not_run(tmp_path: Path, name: str, code: int) -> None:
    done = run(tmp_path, SIGNALLED.format(name=name))

    assert done.returncode == code, done.stdout + done.stderr
    pytests, head, cell, again = done.stdout.splitlines()[-4:]
    assert re.fullmatch(rf"(\d+ deselected, )?\d+ not run \(interrupted by {name}\) in .*", pytests), done.stdout
    assert head == f"interrupted by {name}: 0 of 1 cells ran to the end, 1 not begun"
    assert cell.endswith(": not begun")
    assert again == "to run what did not pass: vmatrix run --rerun-failed abc123"
    summary = (tmp_path / "runs" / "abc123" / "summary.md").read_text()
    assert f"**interrupted by {name}; 0 of 1 cells passed, 1 not started**" in summary


def test_ctrl_c_before_the_run_begins_is_not_bad_input(tmp_path: Path) -> None:
    done = run(tmp_path, EARLY)

    assert done.returncode == 130, done.stdout + done.stderr
    assert not (tmp_path / "runs").exists()


def test_checks_that_cannot_be_collected_are_not_an_interruption(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text("import no_such_module\n")

    done = run(tmp_path, "", str(tmp_path / "test_broken.py"))

    assert done.returncode == 2, done.stdout + done.stderr
    assert "cannot be collected: ModuleNotFoundError: No module named 'no_such_module'" in done.stderr
    assert "hint: fix that and try again" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_items_are_counted_by_cell() -> None:
    names = ["x::test_provision[k1-aa]", "x::test_ready[k1-aa-deploy]", "x::test_gone[k1-bb]", "x::test_other"]

    assert by_cell(["k1-aa", "k1-bb", "k1-cc"], names) == {"k1-aa": 2, "k1-bb": 1}

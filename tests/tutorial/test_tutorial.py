"""The tutorial, from an empty folder to a green cell, with an installed vmatrix on the embedded infrastructure."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.package.conftest import CHECKOUT, Installed, outside
from tests.tutorial.page import Command, File, fits, steps

PAGE = CHECKOUT / "docs" / "tutorial.md"
INSTANCE = "tutorial"
MINUTES = 15  # what the page promises
UP = "vmatrix infra up\n"  # the step that obtains artifacts where no cache has them
CELL_SECONDS = 7200.0  # against hanging


@pytest.fixture
def environment(installed: Installed, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Return the variables of the reader's shell; what it has started is gone afterwards."""
    path = f"{installed.prefix / 'bin'}{os.pathsep}{os.environ['PATH']}"
    yield {**outside(), "PATH": path, "VMATRIX_INFRA_NAME": INSTANCE, "COLUMNS": "100"}
    installed.vmatrix(f"infra down --name {INSTANCE}", cwd=tmp_path)


def run(command: Command, folder: Path, environment: dict[str, str]) -> str:
    """Run a command as the reader does, and return what it prints."""
    done = subprocess.run(
        ["/bin/bash", "-o", "pipefail", *(["-e"] if command.prints is None else []), "-c", command.line],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=CELL_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command.line}\n{done.stdout}"
    return done.stdout


def test_the_page_is_true(environment: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, took, wrong = tmp_path / "empty", 0.0, []
    folder.mkdir()
    for step in steps(PAGE.read_text(encoding="utf-8")):
        if isinstance(step, File):
            (folder / step.name).parent.mkdir(exist_ok=True)
            (folder / step.name).write_text(step.text, encoding="utf-8")
            continue
        began = time.monotonic()
        seen = run(step, folder, environment)
        seconds = time.monotonic() - began
        took += seconds if step.line != UP else 0.0
        with capsys.disabled():
            print(f"\n{seconds:6.1f} s  {step.line.splitlines()[0]}")  # noqa: T201 - the page's own times
        if step.prints is not None and not fits(step.prints, seen.replace(f"{folder}/", "")):
            wrong.append(f"$ {step.line}\nthe page says:\n{step.prints}\nit printed:\n{seen}")
    assert not wrong, "\n".join(wrong)
    assert list(folder.glob("runs/*/summary.md")), "the reader has run cells"
    assert took < MINUTES * 60, f"the commands took {took:.0f} s"

"""Somebody who does what a page says, in one shell: what a command exports is there for the next ones."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.tutorial.page import Command, File, fits, steps

SECONDS = 7200.0  # against hanging
SHELL = """\
test ! -f {state} || . {state}
set -o pipefail {strict}
{line}
code=$?
export -p > {state}
exit $code
"""
Tell = Callable[[str], None]


@dataclass
class Reader:
    """Does the steps of a page in an empty folder.

    environment: of the shell that is opened first.  state: a file for what commands export.
    tell: hears how long each step took.  seconds: how long each took, by its first line.
    """

    folder: Path
    environment: Mapping[str, str]
    state: Path
    tell: Tell
    seconds: dict[str, float] = field(default_factory=dict)

    def does(self, page: str) -> list[str]:
        """Do everything; return where a command printed something else than the page says."""
        wrong = []
        for step in steps(page):
            if isinstance(step, File):
                (self.folder / step.name).parent.mkdir(exist_ok=True)
                (self.folder / step.name).write_text(step.text, encoding="utf-8")
                continue
            seen = self._runs(step)
            if step.prints is not None and not fits(step.prints, seen.replace(f"{self.folder}/", "")):
                wrong.append(f"$ {step.line}\nthe page says:\n{step.prints}\nit printed:\n{seen}")
        return wrong

    def _runs(self, command: Command) -> str:
        """Run a command, which has to succeed, and return what it prints."""
        strict = "-e" if command.prints is None else ""
        began = time.monotonic()
        done = subprocess.run(
            ["/bin/bash", "-c", SHELL.format(state=self.state, strict=strict, line=command.line)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        line = command.line.splitlines()[0]
        self.seconds[line] = self.seconds.get(line, 0.0) + time.monotonic() - began
        self.tell(f"{self.seconds[line]:6.1f} s  {line}")
        assert done.returncode == 0, f"{command.line}\n{done.stdout}"
        return done.stdout

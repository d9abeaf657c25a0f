"""Runs of the real command in processes of their own, which the tests signal, kill and look at from outside."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.events import read
from harness.paths import project_dir
from harness.until import Deadline, NotYet, until

VMATRIX = Path(sys.executable).parent / "vmatrix"
COMMAND_SECONDS = 120.0
CLEANUP = "to clean up after this run: "


@dataclass(frozen=True)
class Ended:
    """A command that ended; a signal that killed it counts as 128 and its number, as in a shell."""

    code: int
    stdout: str
    stderr: str


def vmatrix(
    *words: str | Path, cwd: Path, env: Mapping[str, str] | None = None, seconds: float = COMMAND_SECONDS
) -> Ended:
    """Run the command to its end."""
    done = subprocess.run(
        [VMATRIX, *words],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


@dataclass
class Run:
    """A run under way."""

    id: str
    directory: Path
    process: subprocess.Popen[str]

    @property
    def results(self) -> Path:
        """Return the run's own directory."""
        return self.directory / "runs" / self.id

    def events(self) -> list[dict[str, Any]]:
        """Return what was written down so far."""
        return read(self.results) if (self.results / "results.jsonl").exists() else []

    def wait_for(
        self, event: str, *step: str, cell: str = "", suite: str = "", seconds: float = COMMAND_SECONDS
    ) -> None:
        """Wait until an event is written down."""

        def seen() -> bool | NotYet:
            found = [e for e in self.events() if e["event"] == event and (not step or tuple(e["step"]) == step)]
            found = [e for e in found if not cell or e.get("cell") == cell]
            found = [e for e in found if not suite or e.get("suite") == suite]
            alive = self.process.poll() is None
            assert found or alive, f"ended before {event} {step}: {self.output()}{self.output('stderr')}"
            return True if found else NotYet(f"{len(self.events())} events")

        until(seen, deadline=Deadline.after(seconds), what=f"{event} {step}", interval=0.05)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the run's process alone."""
        os.kill(self.process.pid, number)

    def end(self, seconds: float = COMMAND_SECONDS) -> Ended:
        """Wait for the run's end."""
        code = self.process.wait(timeout=seconds)
        return Ended(code if code >= 0 else 128 - code, self.output(), self.output("stderr"))

    def output(self, name: str = "stdout") -> str:
        """Return what was printed so far."""
        return (self.directory / f"{self.id}.{name}").read_text(encoding="utf-8")

    def cleanup(self) -> list[str]:
        """Return the words of the clean-up command that the first line of the run names, without `vmatrix`."""
        first = self.output().splitlines()[0]
        assert first.startswith(CLEANUP)
        program, *words = shlex.split(first.removeprefix(CLEANUP))
        assert program == "vmatrix"
        return words

    def outcomes(self) -> dict[tuple[str, ...], str]:
        """Return each step's outcome, that of the last attempt."""
        return {tuple(e["step"]): e["outcome"] for e in self.events() if e["event"] == "step-end"}


def start(
    directory: Path,
    run_id: str,
    infra: str,
    *options: str,
    selection: Sequence[str] = ("--tier", "single"),
    env: Mapping[str, str] | None = None,
) -> Run:
    """Start a run, of the tier `single` without another selection, in a directory of its own."""
    words = ["run", *selection, "--infra-name", infra, "--run-id", run_id, *options]
    with (directory / f"{run_id}.stdout").open("w") as out, (directory / f"{run_id}.stderr").open("w") as err:
        process = subprocess.Popen(
            [VMATRIX, *words],
            cwd=directory,
            env={**os.environ, "VMATRIX_HISTORY": str(directory / "history.jsonl"), **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            text=True,
        )
    return Run(run_id, directory, process)


def project_copy(target: Path, *copied: str) -> Path:
    """Make a checkout at `target` whose folders `copied` may be changed; the others lead to the real ones."""
    target.mkdir()
    for name in ("matrix", "vm-templates", "playbooks", "tests"):
        if name in copied:
            shutil.copytree(project_dir() / name, target / name)
        else:
            (target / name).symlink_to(project_dir() / name)
    return target


def change(file: Path, keys: Sequence[str | int], value: object) -> None:
    """Change one value in a YAML file."""
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    inner = content
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    file.write_text(yaml.safe_dump(content, default_flow_style=False), encoding="utf-8")


def failures(run: Run) -> list[dict[str, Any]]:
    """Return the top-level steps that failed, in order."""
    return [e for e in run.events() if e["event"] == "step-end" and e["outcome"] == "failed" and len(e["step"]) == 1]


def wait_until(condition: Callable[[], bool], what: str, *, seconds: float = COMMAND_SECONDS) -> None:
    """Wait until a condition holds."""
    until(lambda: condition() or NotYet("not yet"), deadline=Deadline.after(seconds), what=what, interval=0.05)

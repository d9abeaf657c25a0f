"""A whole run of cells whose machines are played: pytest as vmatrix starts it, with checks of a project's own.

A cell's machines are a folder `machines/CELL` beside the project, which provisioning makes and teardown takes away. All
else is what a real run does: pytest's process, its workers, their ends, results.jsonl and the reports.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as Xml

from harness.interpreter import PYTEST, surroundings
from harness.paths import PROJECT, packaged_dir

MACHINES = "PLAYED_MACHINES"  # the folder of played machines; a process that has it plays
SECONDS = 120.0  # against hanging
TIERS = """\
extends: default
tiers:
  smoke: {suites: [own]}
  mr: {suites: [own]}
"""
HOOK = "import tests.unit.plugin.played\ntests.unit.plugin.played.play()\n"


def play() -> None:
    """Have this process play machines: called before anything else of it."""
    from harness import providers
    from harness.cell import existing
    from harness.cell.life import Life
    from harness.session import dispatch, refusals, run
    from harness.session.admit import Waiting

    functions: list[tuple[Any, str, Callable[..., Any]]] = [
        (providers, "open_site", _site),
        (providers, "join_site", _site),
        (providers, "coming", lambda *_: []),
        (providers, "keeper", lambda *_: nullcontext()),
        (refusals, "refuse", lambda *_: None),
        (run, "reap", _reap),
        (dispatch, "reap", _reap),
        (existing, "find", _find),
        (Waiting, "on", staticmethod(_waiting)),
        (Life, "provision", _provision),
        (Life, "_apply", _applied),
        (Life, "collect", _collect),
        (Life, "teardown", _teardown),
        (Life, "overload", lambda _: ""),
    ]
    for owner, name, function in functions:
        setattr(owner, name, function)


def _there(cell: str = "") -> Path:
    return Path(os.environ[MACHINES]) / cell


def _site(project: Any, *_: Any, **__: Any) -> Any:
    from harness.model import Mirror

    return SimpleNamespace(
        cluster=None,
        timeouts=project.timeouts,
        namespace=None,
        infra_id="",
        expiry_hours=1.0,
        mirror=Mirror("http://192.0.2.1", "192.0.2.1:5000"),
        product_of=lambda cell: project.spec.product_of(cell.values),
    )


def _provision(life: Any) -> Any:
    from harness.model import Environment

    if life.environment is None:
        with life.steps.step("provision"):
            _there(life.cell.id).mkdir(parents=True)
            folder = life.attempt.directory
            folder.mkdir(parents=True, exist_ok=True)
            machines: Any = tuple(SimpleNamespace(name=m.name, tunnels=None) for m in life.cell.machines)
            life.environment = Environment(life.attempt.run, life.cell, 1, "ns", machines, folder, folder / "id")
    return life.environment


def _applied(life: Any, whole: Any, _: int) -> Any:
    from harness.model import GuestCluster

    kubeconfig = life.attempt.files.kubeconfig
    kubeconfig.touch(mode=0o600)
    return GuestCluster(whole, kubeconfig, {})


def _collect(life: Any) -> None:
    with life.steps.step("collect"):
        pass


def _teardown(life: Any) -> None:
    with life.steps.step("teardown"):
        shutil.rmtree(_there(life.cell.id), ignore_errors=True)
    life.torn_down = True


def _reap(_: Any, selector: Any, **__: Any) -> None:
    shutil.rmtree(_there(selector.cell or ""), ignore_errors=True)


def _find(_: Any, selector: Any) -> list[Path]:
    return [_there(selector.cell)] if _there(selector.cell).exists() else []


def _waiting(*_: Any) -> Any:
    return SimpleNamespace(
        admit=lambda *_: None,
        admission=SimpleNamespace(gone=lambda _: None),
        expected=lambda _: SimpleNamespace(seconds=1.0, source="played"),
        first=lambda cells: SimpleNamespace(admitted=cells[0], refused=()),
        on_step=lambda _: None,
        say=lambda *_: None,
        seconds=60.0,
        stop=lambda: None,
    )


@dataclass(frozen=True)
class Played:
    """A run that has ended."""

    code: int
    stdout: str
    stderr: str
    runs: Path
    machines: Path

    @property
    def directory(self) -> Path:
        """Return the run's directory."""
        (found,) = [path for path in self.runs.iterdir() if path.is_dir()]
        return found

    @property
    def events(self) -> list[dict[str, Any]]:
        """Return the lines of results.jsonl."""
        text = (self.directory / "results.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def checks(self) -> list[tuple[str, str, str]]:
        """Return name, outcome and blame of each check."""
        found = [event for event in self.events if event["event"] == "check"]
        return [(event["name"], event["outcome"], event.get("blame", "")) for event in found]

    def failed_steps(self) -> list[tuple[str, str, str]]:
        """Return name, blame and summary of each step that failed."""
        found = [event for event in self.events if event["event"] == "step-end" and event.get("outcome") == "failed"]
        return [(event["step"][0], event["blame"], event["summary"]) for event in found]

    def junit(self) -> Iterator[tuple[str, str]]:
        """Yield each failed case of junit.xml, and its message."""
        for case in Xml.parse(self.directory / "junit.xml").iter("testcase"):
            for failure in (*case.iter("failure"), *case.iter("error")):
                yield str(case.get("name")), str(failure.get("message"))

    @property
    def summary(self) -> str:
        """Return summary.md."""
        return (self.directory / "summary.md").read_text(encoding="utf-8")

    @property
    def left(self) -> list[str]:
        """Return the machines that are still there."""
        return sorted(path.name for path in self.machines.iterdir()) if self.machines.is_dir() else []

    def __str__(self) -> str:
        """Return what was printed, for a test that fails."""
        return f"exit code {self.code}\n{self.stdout[-20000:]}\n{self.stderr[-20000:]}"


def played(
    folder: Path,
    files: Mapping[str, str | bytes],
    *words: str,
    env: Mapping[str, str] | None = None,
    seconds: float = SECONDS,
) -> Played:
    """Run cells with own checks.

    Args:
        folder: for the project, its runs and its machines.  files: of the project, by path.
        words: of the call, after the tier.
    """
    project, machines = folder / "project", folder / "machines"
    for name, text in {"vmatrix.yml": "", "matrix/tiers.yml": TIERS, **files}.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    (folder / "hook").mkdir()
    (folder / "hook" / "sitecustomize.py").write_text(HOOK)
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("VMATRIX_", "CI_", "PYTEST_"))}
    given = {
        **surroundings(ours),
        "PYTHONPATH": os.pathsep.join([str(folder / "hook"), str(packaged_dir())]),
        MACHINES: str(machines),
        PROJECT: str(project),
        "XDG_STATE_HOME": str(folder / "state"),
        "VMATRIX_RUNS": str(folder / "runs"),
        **(env or {}),
    }
    cells, own = packaged_dir() / "tests" / "cells", project / "checks"
    settings: list[str | Path] = ["-c", packaged_dir() / "pyproject.toml", "--rootdir", project, "--confcutdir", own]
    tier = [] if "--tier" in words else ["--tier", "smoke"]
    call: list[str | Path] = [
        sys.executable,
        "-P",
        "-m",
        PYTEST,
        cells,
        own,
        *settings,
        "-p",
        "no:cacheprovider",
        *tier,
        *words,
    ]
    outputs = folder / "stdout", folder / "stderr"  # files: what a check leaves running keeps no pipe open
    with outputs[0].open("wb") as out, outputs[1].open("wb") as err:
        done = subprocess.run(
            call, cwd=project, env=given, stdout=out, stderr=err, stdin=subprocess.DEVNULL, timeout=seconds, check=False
        )
    said, errors = (path.read_text(encoding="utf-8", errors="backslashreplace") for path in outputs)
    return Played(done.returncode, said, errors, folder / "runs", machines)

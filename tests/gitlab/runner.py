"""A job's steps as GitLab Runner's Kubernetes executor runs them, for what gitlab-ci-local cannot show: cancelled jobs.

Read in the runner's source (shells/bash.go, executors/kubernetes): before_script and script are one text, evaluated in
a subshell of the step's shell with its standard input at its end; after_script is another step in a shell of its own.
To cancel, the runner sends SIGTERM to the children of the step's shell, waits for nothing, and begins after_script.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.gitlab.job import read_job
from harness.paths import cache_dir
from tests.embedded.run.runs import Run
from tests.gitlab.checkout import Checkout, flat, without_ci

STEP = """\
#!/usr/bin/env bash
trap 'exit 1' TERM
set -o pipefail
set -o errexit
: | eval {script}
exit 0
"""
CANCELED = "canceled"  # CI_JOB_STATUS


@dataclass
class Job:
    """A job under way.

    definition: merged, as in the pipeline's file.  variables: GitLab's own; the job's come on top.
    """

    checkout: Checkout
    definition: Mapping[str, Any]
    variables: Mapping[str, str]
    logs: Path
    step: subprocess.Popen[bytes] | None = None
    seen: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables of the job's steps."""
        of_job = {name: str(value).replace("$$", "$") for name, value in self.definition.get("variables", {}).items()}
        own = {"CI_PROJECT_DIR": str(self.checkout.directory), "XDG_CACHE_HOME": str(cache_dir().parent)}
        return {**without_ci(os.environ), **of_job, **own, **self.variables}

    @property
    def run(self) -> Run:
        """Return the run of cells that the job's script is."""
        assert self.step is not None
        run_id = read_job(self.environment).run
        return Run(run_id, self.checkout.directory, self.step)  # type: ignore[arg-type] # only its state is asked for

    def begin(self) -> None:
        """Start the step of before_script and script."""
        lines = flat(self.definition.get("before_script")) + flat(self.definition["script"])
        self.step = self._shell("script", "\n".join(lines), {})

    def cancel(self) -> None:
        """Send SIGTERM to the children of the step's shell; wait for nothing."""
        assert self.step is not None
        for child in children(self.step.pid):
            os.kill(child, signal.SIGTERM)

    def end(self, seconds: float) -> int:
        """Wait for the script; return its exit code."""
        assert self.step is not None
        return self.step.wait(timeout=seconds)

    def after(self, status: str, seconds: float) -> int:
        """Run after_script to its end and return its exit code."""
        script = "\n".join(flat(self.definition["after_script"]))
        return self._shell("after_script", script, {"CI_JOB_STATUS": status}).wait(timeout=seconds)

    def said(self, step: str = "script") -> str:
        """Return what a step has printed so far."""
        return (self.logs / f"{step}.log").read_text(encoding="utf-8", errors="replace")

    def kill(self) -> None:
        """End what is left of the script at once, as a node that is lost does."""
        if self.step is not None and self.step.poll() is None:
            os.killpg(self.step.pid, signal.SIGKILL)
            self.step.wait()

    def _shell(self, step: str, script: str, more: Mapping[str, str]) -> subprocess.Popen[bytes]:
        self.logs.mkdir(parents=True, exist_ok=True)
        file = self.logs / f"{step}.sh"
        file.write_text(STEP.format(script=shlex.quote(script)), encoding="utf-8")
        with (self.logs / f"{step}.log").open("wb") as log:
            return subprocess.Popen(
                ["/bin/bash", str(file)],
                cwd=self.checkout.directory,
                env={**self.environment, **more},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


def children(pid: int) -> list[int]:
    """Return the direct children of a process."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (task / "children").read_text(encoding="utf-8").split())
    return found

"""GitLab's own runner as a process of this host: which one, its settings, its start and its end."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.gitlab.checkout import without_ci
from tests.gitlab.server.model import KnownRunner

VARIABLE = "VMATRIX_GITLAB_RUNNER"
PROGRAMS = ("gitlab-runner", "gitlab-runner-helper")
ABSENT = (
    f"{VARIABLE} is not set: name a folder with the programs {' and '.join(PROGRAMS)}, "
    "and these tests drive the server with a real runner"
)
END_SECONDS = 60.0  # for a runner that is told to end its jobs
SETTINGS = """\
concurrent = {concurrent}
check_interval = 1
shutdown_timeout = 30

[[runners]]
  name = "{name}"
  url = "{url}"
  token = "{token}"
  executor = "shell"
  builds_dir = "{folder}/builds"
  cache_dir = "{folder}/cache"
  output_limit = {output_limit}
"""


def program() -> Path:
    """Return the runner; the test that asks is skipped, and says why, where there is none."""
    given = os.environ.get(VARIABLE)
    if not given:
        pytest.skip(ABSENT)
    missing = [name for name in PROGRAMS if not os.access(Path(given) / name, os.X_OK)]
    if missing:
        pytest.fail(f"{VARIABLE}={given} has no program {' and '.join(missing)}", pytrace=False)
    return Path(given) / PROGRAMS[0]


@dataclass
class RunnerProcess:
    """A runner that takes jobs.  home: its settings, builds, cache and log."""

    argv: list[str]
    home: Path
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def said(self) -> str:
        """Return the runner's own log."""
        return (self.home / "runner.log").read_text(encoding="utf-8", errors="replace")

    def start(self) -> None:
        """Start it."""
        with (self.home / "runner.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.argv,
                cwd=self.home,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        """End it at once, as a host that is lost does; its jobs' shells stay."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Tell it to end its jobs and itself."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


@contextmanager
def running(
    url: str, runner: KnownRunner, home: Path, *, concurrent: int = 4, log_kib: int = 4096
) -> Iterator[RunnerProcess]:
    """Run the real runner with executor `shell` against a server, its files in a folder."""
    home.mkdir(parents=True, exist_ok=True)
    settings = home / "config.toml"
    settings.write_text(
        SETTINGS.format(
            concurrent=concurrent, name=runner.id, url=url, token=runner.token, folder=home, output_limit=log_kib
        ),
        encoding="utf-8",
    )
    settings.chmod(0o600)
    own = without_ci(os.environ) | {"HOME": str(home)}
    made = RunnerProcess(
        [str(program()), "run", "--config", str(settings), "--working-directory", str(home)], home, own
    )
    made.start()
    try:
        yield made
    finally:
        made.stop()

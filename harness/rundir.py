"""The directory of a run's results: the only module that knows what lies where in it, and under which names.

RUNS/RUN/results.jsonl, summary.md, junit.xml, history.jsonl; below them a directory for each cell, which is also that
of its first attempt; the files of attempt N > 1 lie in attempt-N in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RESULTS, SUMMARY, JUNIT, HISTORY = "results.jsonl", "summary.md", "junit.xml", "history.jsonl"
KEY, KUBECONFIG, SNAPSHOT = "id_ed25519", "kubeconfig", "etcd-snapshot.db"
# Globs, in an attempt's directory: a run's directory is what people pass around.
SECRETS = (KEY, KUBECONFIG, f"{KUBECONFIG}.*", SNAPSHOT)
LATER_ATTEMPT = re.compile(r"attempt-\d+")


@dataclass(frozen=True)
class RunDir:
    """The directory of one run; its name is the run's id."""

    path: Path

    @staticmethod
    def of(runs: Path, run: str) -> RunDir:
        """Return the directory of a run by its id, absolute."""
        return RunDir((runs / run).resolve())

    @staticmethod
    def all_in(runs: Path) -> list[RunDir]:
        """Return the runs of a directory that have results, by name."""
        return [RunDir(path.parent) for path in sorted(runs.glob(f"*/{RESULTS}"))]

    @property
    def results(self) -> Path:
        """The run's events, a line of JSON each."""
        return self.path / RESULTS

    @property
    def summary(self) -> Path:
        """The report for people, in Markdown."""
        return self.path / SUMMARY

    @property
    def junit(self) -> Path:
        """The report for GitLab and its like."""
        return self.path / JUNIT

    @property
    def history(self) -> Path:
        """The run's records for `vmatrix report`; a file of the same name in the runs' directory has those of all."""
        return self.path / HISTORY

    def attempt(self, cell: str, number: int = 1) -> AttemptDir:
        """Return the directory of an attempt at a cell."""
        return AttemptDir(self.path / cell).sibling(number)

    def remove_secrets(self, cell: str) -> None:
        """Remove keys, kubeconfigs and the like of all attempts at a cell."""
        _remove(file for glob in SECRETS for file in (self.path / cell).rglob(glob))


@dataclass(frozen=True)
class AttemptDir:
    """The directory of one attempt at a cell."""

    path: Path

    def sibling(self, number: int) -> AttemptDir:
        """Return the directory of another attempt at the same cell."""
        cell = self.path.parent if LATER_ATTEMPT.fullmatch(self.path.name) else self.path
        return AttemptDir(cell / f"attempt-{number}" if number > 1 else cell)

    @property
    def key(self) -> Path:
        """The private key that opens the machines."""
        return self.path / KEY

    @property
    def kubeconfig(self) -> Path:
        """The guest cluster's kubeconfig, of its admin; the playbooks write it."""
        return self.path / KUBECONFIG

    def proxied(self, suffix: str = "proxied") -> Path:
        """Return the path of a copy of the kubeconfig that leads through the infra cluster's API."""
        return self.path / f"{KUBECONFIG}.{suffix}"

    @property
    def snapshot(self) -> Path:
        """Where the playbooks put a snapshot of etcd."""
        return self.path / SNAPSHOT

    @property
    def hosts(self) -> Path:
        """The inventory."""
        return self.path / "inventory" / "hosts.yml"

    @property
    def variables(self) -> Path:
        """The playbooks' variables."""
        return self.path / "inventory" / "extra-vars.yml"

    @property
    def tunnels(self) -> Path:
        """How machines are reached through the infra cluster's API; missing where they are reached directly."""
        return self.path / "tunnels.json"

    @property
    def logs(self) -> Path:
        """The directory of everything that explains the outcome."""
        return self.path / "logs"

    @property
    def tunnels_log(self) -> Path:
        """Connections through the infra cluster's API that were lost."""
        return self.logs / "tunnels.log"

    @property
    def objects(self) -> Path:
        """The cell's objects in the infra cluster, as they were before they were deleted."""
        return self.logs / "objects.yml"

    @property
    def events(self) -> Path:
        """The events about them."""
        return self.logs / "events.log"

    def log(self, name: str) -> Path:
        """Return the log of a stage ("deploy"), or of a machine's console or launcher ("cp-0-console")."""
        return self.logs / f"{name}.log"

    def machine_logs(self, machine: str) -> Path:
        """Return the directory of what was collected on a machine."""
        return self.logs / machine

    @property
    def checks(self) -> Path:
        """The directory of the checks' own files."""
        return self.path / "checks"

    def answers(self, stage: str) -> Path:
        """Return the file of what the workload and the API answered during a phase."""
        return self.checks / f"answers-{stage}.jsonl"

    def remove_secrets(self) -> None:
        """Remove keys, kubeconfigs and the like."""
        _remove(file for glob in SECRETS for file in self.path.glob(glob))


def _remove(files: Iterator[Path]) -> None:
    for file in list(files):
        file.unlink(missing_ok=True)

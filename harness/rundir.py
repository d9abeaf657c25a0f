"""The directory of a run's results: the only module that knows what lies where in it, and under which names.

RUNS/RUN/results.jsonl, summary.md, junit.xml, history.jsonl; below them a directory for each cell, which is also that
of its first attempt; the files of attempt N > 1 lie in attempt-N in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

GIVEN = "given"  # in the runs' directory: checks of clusters that vmatrix did not make
RESULTS, SUMMARY, JUNIT, HISTORY = "results.jsonl", "summary.md", "junit.xml", "history.jsonl"
KEY, KUBECONFIG, SNAPSHOT, APPLIED = "id_ed25519", "kubeconfig", "etcd-snapshot.db", "applied.yml"
# Globs, in an attempt's directory: a run's directory is what people pass around.
SECRETS = (KEY, KUBECONFIG, f"{KUBECONFIG}.*", SNAPSHOT, APPLIED)
OF_MACHINES = ("console", "launcher")  # ends of names of logs: what a machine wrote, and its launcher
LATER_ATTEMPT = re.compile(r"attempt-\d+")


class _Below:
    """An attribute that is a path below its owner's."""

    def __init__(self, *parts: str) -> None:
        self._below = Path(*parts)

    def __get__(self, owner: RunDir | AttemptDir, _: type) -> Path:
        return owner.path / self._below


@dataclass(frozen=True)
class RunDir:
    """The directory of one run; its name is the run's id."""

    path: Path

    results = _Below(RESULTS)  # the run's events, a line of JSON each
    summary = _Below(SUMMARY)  # the report for people
    junit = _Below(JUNIT)  # the report for GitLab and its like
    history = _Below(HISTORY)  # the run's records for `vmatrix report`; the runs' directory has such a file for all

    @staticmethod
    def of(runs: Path, run: str) -> RunDir:
        """Return the directory of a run by its id, absolute."""
        return RunDir((runs / run).resolve())

    @staticmethod
    def of_given(runs: Path, run: str) -> RunDir:
        """Return the directory of checks of a cluster that vmatrix did not make, absolute."""
        return RunDir((runs / GIVEN / run).resolve())

    @staticmethod
    def all_in(runs: Path) -> list[RunDir]:
        """Return the runs of a directory that have results, by name."""
        return [RunDir(path.parent) for path in sorted(runs.glob(f"*/{RESULTS}"))]

    def cells(self) -> list[str]:
        """Return the ids of its cells that have an inventory, by name."""
        return sorted(path.parent.parent.name for path in self.path.glob("*/inventory/hosts.yml"))

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

    key = _Below(KEY)  # the private key that opens the machines
    kubeconfig = _Below(KUBECONFIG)  # of the guest cluster's admin; the playbooks write it
    snapshot = _Below(SNAPSHOT)  # of etcd; the playbooks write it
    hosts = _Below("inventory", "hosts.yml")
    variables = _Below("inventory", "extra-vars.yml")
    machines = _Below("inventory", "machines.json")  # these four for programs, of the phase that was run last
    ssh_config = _Below("inventory", "ssh_config")
    variables_json = _Below("inventory", "variables.json")
    phase_environment = _Below("inventory", "phase.env")
    applied = _Below(APPLIED)  # of a declared product, by the phase that was run last; with machines' keys
    repository = _Below(
        "repository"
    )  # of git: what phases of a declared product have committed, tagged with their stage
    tunnels = _Below("tunnels.json")  # connections to machines through the infra cluster's API; missing without
    logs = _Below("logs")  # everything that explains the outcome
    tunnels_log = _Below("logs", "tunnels.log")  # such connections that were lost
    objects = _Below("logs", "objects.yml")  # in the infra cluster, before they were deleted
    events = _Below("logs", "events.log")  # about them
    checks = _Below("checks")  # the checks' own files
    again = _Below("again")  # the results of checks of the kept cell, a numbered folder for each time
    kube_cache = _Below("kube-cache")  # of `vmatrix kubectl`: another guest at the same address served other kinds

    def sibling(self, number: int) -> AttemptDir:
        """Return the directory of another attempt at the same cell."""
        cell = self.path.parent if LATER_ATTEMPT.fullmatch(self.path.name) else self.path
        return AttemptDir(cell / f"attempt-{number}" if number > 1 else cell)

    def proxied(self, suffix: str = "proxied") -> Path:
        """Return the path of a copy of the kubeconfig that leads through the infra cluster's API."""
        return self.path / f"{KUBECONFIG}.{suffix}"

    def log(self, name: str) -> Path:
        """Return the log of a stage ("deploy"), or of a machine's console or launcher ("cp-0-console")."""
        return self.logs / f"{name}.log"

    def stage_logs(self) -> dict[str, Path]:
        """Return the logs of the product's phases that have begun, by the stage, oldest first."""
        others = {self.events, self.tunnels_log, *(f for end in OF_MACHINES for f in self.logs.glob(f"*-{end}.log"))}
        found = [path for path in self.logs.glob("*.log") if path not in others]
        return {path.stem: path for path in sorted(found, key=lambda path: path.stat().st_mtime)}

    def failures(self, stage: str) -> Path:
        """Return the file of a phase's failed tasks, as Ansible tells them: a line of JSON each."""
        return self.logs / f"{stage}-failures.jsonl"

    def chaos(self, stage: str) -> Path:
        """Return the file of all that happened in a phase whose programs were ended on request: lines of JSON."""
        return self.logs / f"{stage}-chaos.jsonl"

    def result(self, stage: str) -> Path:
        """Return the file in which a phase's program says how it went."""
        return self.logs / f"{stage}-result.json"

    def machine_logs(self, machine: str) -> Path:
        """Return the directory of what was collected on a machine."""
        return self.logs / machine

    def answers(self, stage: str) -> Path:
        """Return the file of what the workload and the API answered during a phase."""
        return self.checks / f"answers-{stage}.jsonl"

    def remove_secrets(self) -> None:
        """Remove keys, kubeconfigs and the like."""
        _remove(file for glob in SECRETS for file in self.path.glob(glob))


def _remove(files: Iterator[Path]) -> None:
    for file in list(files):
        if file.is_dir() and not file.is_symlink():  # an external CA's keys and certificates
            rmtree(file)
        else:
            file.unlink(missing_ok=True)

"""One login to a Machine, for a bounded time: what it is, or why it cannot be used, in words with a remedy."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from harness.files import write_atomically
from harness.kube.kubeconfig import Files
from harness.kube.portforward import OPEN_SECONDS
from harness.kube.tunnels import Tunnels
from harness.machines.access import CONNECT_SECONDS, SSH_FAILED, TUNNEL_START_SECONDS, run_on
from harness.machines.private import PrivateFiles
from harness.machines.probe_program import ProbedFacts, command, facts_of
from harness.model import Machine, PlannedMachine
from harness.operator.api.machine import DeclaredMachine
from harness.operator.context import OperatorContext
from harness.proc import CommandFailed, Completed

LOGIN_SECONDS = 20.0  # for the program, after the connection; as ssh_login of matrix/timeouts.yml
REFUSED = ("Permission denied", "Too many authentication failures")  # of ssh(1), in whatever locale
LAST_LINES = 3
LONGEST = 300  # characters of what a machine said


class TroubleReason(StrEnum):
    """Why a machine cannot be used, as the reason of a condition."""

    KEY_MISSING = "KeyMissing"
    INVALID_KEY = "InvalidKey"
    KEY_REFUSED = "KeyRefused"
    NOT_PERMITTED = "NotPermitted"
    UNREACHABLE = "Unreachable"
    BOOTING = "Booting"


@dataclass(frozen=True)
class ProbeTrouble:
    """Nothing was found out, and why; the message ends with what to do."""

    reason: TroubleReason
    message: str


Outcome = ProbedFacts | ProbeTrouble
Found = TypeVar("Found")


@dataclass(frozen=True)
class InfraApi:
    """The API through which machines are reached, by its kubeconfig."""

    kubeconfig: Files

    @staticmethod
    def of(context: OperatorContext) -> InfraApi | None:
        """Return the API that Machines are reached through where they say so; None: all are reached directly."""
        return None if context.options.access == "Direct" else InfraApi(context.kubeconfig)

    def tunnels(self, namespace: str, instances: dict[str, str], stretch: float) -> Tunnels:
        """Return how machines are reached, by address; losses are not written down, conditions tell of them."""
        return Tunnels(self.kubeconfig, None, namespace, instances, Path(os.devnull), OPEN_SECONDS * stretch)


@dataclass(frozen=True)
class MachineLogin:
    """How to log in to a Machine. api: what it is reached through if it says so.  stretch: factor for all waits."""

    to: DeclaredMachine
    api: InfraApi | None = None
    stretch: float = 1.0

    def ask(self, key: bytes, files: PrivateFiles) -> Outcome:
        """Log in once with a key, and return what was found."""
        return self.run(key, files, command(), facts_of)

    def run(
        self, key: bytes, files: PrivateFiles, program: str, read: Callable[[str], Found | None]
    ) -> Found | ProbeTrouble:
        """Log in once with a key, run a command, and return what is read from what it prints."""
        opening = TUNNEL_START_SECONDS + OPEN_SECONDS if self._instance else CONNECT_SECONDS
        seconds = (opening + LOGIN_SECONDS) * self.stretch
        with files.use() as folder:
            private_key = folder / "key"
            write_atomically(private_key, key, mode=0o600)
            try:
                done = run_on(self.machine(folder), program, private_key=private_key, timeout=seconds)
            except CommandFailed as late:
                return self._unreachable(f"no answer within {seconds:.0f} s {late.detail}".strip())
        return self.judged(done, read)

    def machine(self, folder: Path) -> Machine:
        """Return the machine as the rest of the harness knows it; what has to be a file for it goes into a folder."""
        spec, planned = self.to.spec, PlannedMachine(self.to.hostname, (), 0, 0, 0, "")
        if not self._instance or self.api is None:
            return Machine(planned, self.to.address, spec.port, spec.user, None, CONNECT_SECONDS * self.stretch)
        path = folder / "tunnels.json"
        self.api.tunnels(self.to.metadata.namespace, {self.to.address: self._instance}, self.stretch).save(path)
        return Machine(planned, self.to.address, spec.port, spec.user, path)

    def judged(self, done: Completed, read: Callable[[str], Found | None]) -> Found | ProbeTrouble:
        """Return what a login that ended says."""
        user = self.to.spec.user
        if done.returncode == SSH_FAILED:
            said = _last(done.stderr) or "ssh said nothing"
            if not any(words in said for words in REFUSED):
                return self._unreachable(said)
            message = f"{self._target} refused the key of Secret {self.to.spec.key_ref.name}: {said}"
            remedy = f"add its public key to ~{user}/.ssh/authorized_keys on the machine, or correct spec.user"
            return ProbeTrouble(TroubleReason.KEY_REFUSED, f"{message}; {remedy}")
        found = read(done.stdout)
        if found is not None:
            return found
        said = _last(done.stderr) or _last(done.stdout) or f"status {done.returncode}"
        remedy = f"let {user} run commands as root without a password: sudo -n true"
        return ProbeTrouble(TroubleReason.NOT_PERMITTED, f"{self._target} did not say what it is: {said}; {remedy}")

    def _unreachable(self, why: str) -> ProbeTrouble:
        how, instance = "directly", self._instance
        remedy = "see that the machine runs, its sshd listens, and spec.address and spec.port are right"
        if instance:
            how = f"through VirtualMachineInstance {instance}"
            remedy = f"see `kubectl get vmi -n {self.to.metadata.namespace} {instance}`, and whether its sshd runs"
        return ProbeTrouble(TroubleReason.UNREACHABLE, f"{self._target} cannot be reached {how}: {why}; {remedy}")

    @property
    def _target(self) -> str:
        return f"{self.to.spec.user}@{self.to.address}:{self.to.spec.port}"

    @property
    def _instance(self) -> str:
        """Return the VirtualMachineInstance that the login leads through, "" where it goes directly."""
        return self.to.instance if self.api is not None else ""


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(lines[-LAST_LINES:])[:LONGEST]

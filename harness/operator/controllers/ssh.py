"""SSH logins to Machines: private keys from Secrets, one login for a bounded time, and why it failed.

What is not a key is not remembered, nor is a key that a machine refused: the next login reads the Secret again.
"""

from __future__ import annotations

import base64
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from harness.files import write_atomically
from harness.kube.client import Cluster, Json
from harness.kube.kubeconfig import Files
from harness.kube.objects import dig
from harness.kube.resources import SECRET
from harness.machines.keys import PrivateFiles
from harness.machines.programs import ProbedFacts, facts_of, probe_command
from harness.machines.reach.portforward import OPEN_SECONDS, Tunnels
from harness.machines.reach.ssh import CONNECT_SECONDS, SSH_FAILED, TUNNEL_START_SECONDS, run_on
from harness.model import Machine, PlannedMachine
from harness.operator.api.machine import DeclaredMachine, KeyRef
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
        return self.run(key, files, probe_command(), facts_of)

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
            message_of_ssh = _last(done.stderr) or "ssh said nothing"
            if not any(words in message_of_ssh for words in REFUSED):
                return self._unreachable(message_of_ssh)
            message = f"{self._target} refused the key of Secret {self.to.spec.key_ref.name}: {message_of_ssh}"
            remedy = f"add its public key to ~{user}/.ssh/authorized_keys on the machine, or correct spec.user"
            return ProbeTrouble(TroubleReason.KEY_REFUSED, f"{message}; {remedy}")
        reading = read(done.stdout)
        if reading is not None:
            return reading
        message_of_ssh = _last(done.stderr) or _last(done.stdout) or f"status {done.returncode}"
        remedy = f"let {user} run commands as root without a password: sudo -n true"
        return ProbeTrouble(
            TroubleReason.NOT_PERMITTED, f"{self._target} did not say what it is: {message_of_ssh}; {remedy}"
        )

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


def key_of_secret(secret: Json | None, reference: KeyRef) -> bytes | ProbeTrouble:
    """Return the private key in a Secret, as ssh reads it from a file; or why it cannot be used, and what to do.

    Args:
        secret: as the API returned it; None when there is none of that name.
    """
    name, key = reference.name, reference.key
    if secret is None:
        make = f"kubectl create secret generic {name} --from-file={key}=PRIVATE_KEY_FILE"
        return ProbeTrouble(TroubleReason.KEY_MISSING, f"there is no Secret {name} in this namespace; make it: {make}")
    encoded = dig(secret, "data", key)
    if not encoded:
        keys = ", ".join(sorted(dig(secret, "data") or {})) or "nothing"
        remedy = f"add the private key as {key}, or correct spec.keyRef.key"
        return ProbeTrouble(TroubleReason.KEY_MISSING, f"Secret {name} has no {key} (it has: {keys}); {remedy}")
    content = base64.b64decode(encoded)
    load = serialization.load_ssh_private_key if b"BEGIN OPENSSH" in content else serialization.load_pem_private_key
    try:
        load(content, password=None)
    except TypeError:
        wrong = "is a private key with a passphrase; give a key without a passphrase"
    except (ValueError, UnsupportedAlgorithm):
        wrong = "is not a private key that ssh can use; give what ssh-keygen wrote, not the .pub file"
    else:
        return content.rstrip(b"\n") + b"\n"  # ssh insists on the line end
    return ProbeTrouble(TroubleReason.INVALID_KEY, f"{key} of Secret {name} {wrong}")


KEY_SECONDS = 600.0  # a Secret that somebody deletes is missed after that; one in twelve looks reads it


class KnownKeys:
    """Reads keys, and remembers them for so many seconds; 0: not at all."""

    def __init__(self, cluster: Cluster, seconds: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._seconds = seconds
        self._clock = clock
        self._known: dict[tuple[str, str, str], tuple[float, bytes]] = {}
        self._lock = threading.Lock()

    def of(self, machine: DeclaredMachine) -> bytes | ProbeTrouble:
        """Return a Machine's key, or why it has none."""
        now, name = self._clock(), _name(machine)
        with self._lock:
            self._known = {machine_name: known for machine_name, known in self._known.items() if known[0] > now}
            if name in self._known:
                return self._known[name][1]
        reference = machine.spec.key_ref
        content = key_of_secret(self._cluster.get(SECRET, reference.name, machine.metadata.namespace), reference)
        if isinstance(content, bytes) and self._seconds:
            with self._lock:
                self._known[name] = now + self._seconds, content
        return content

    def judge(self, machine: DeclaredMachine, outcome: object) -> None:
        """Forget the key of a login whose machine refused it: its Secret may have another one by now."""
        if isinstance(outcome, ProbeTrouble) and outcome.reason is TroubleReason.KEY_REFUSED:
            with self._lock:
                self._known.pop(_name(machine), None)


def _name(machine: DeclaredMachine) -> tuple[str, str, str]:
    reference = machine.spec.key_ref
    return machine.metadata.namespace, reference.name, reference.key

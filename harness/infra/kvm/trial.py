"""One run of the guest on this host's KVM, and what it tells."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from harness import proc
from harness.infra.kvm import guest
from harness.interpreter import call

LONGEST_SECONDS = 60.0  # a fifth of a second of work; the rest is for hosts whose processors are all busy


class KvmState(StrEnum):
    """What is known of a host's KVM."""

    WORKS = "works"
    BROKEN = "broken"
    ABSENT = "absent"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Verdict:
    """What is known of a host's KVM, and why, in words that go on after "/dev/kvm"."""

    state: KvmState
    why: str

    @property
    def usable(self) -> bool:
        """Tell whether virtual machines are known to run with it."""
        return self.state is KvmState.WORKS


@dataclass(frozen=True)
class Trial:
    """One run of the guest: what it printed, and the status of its process (negative: a signal; None: ended late)."""

    lines: Sequence[str]
    status: int | None


def try_out(device: Path) -> Trial:
    """Run the guest in a process of its own, for a minute at most."""
    lines: list[str] = []
    words: list[str | Path] = [*call("harness.infra.kvm.vmm"), device]
    try:
        done = proc.run(
            words,
            timeout=LONGEST_SECONDS,
            check=False,
            env={"PYTHONPATH": str(Path(__file__).parents[3])},  # however this package was found
            on_line=lambda line: lines.append(line.rstrip("\n")),
        )
    except proc.CommandFailed:
        return Trial(lines, None)
    return Trial(lines, done.returncode)


def read(trial: Trial) -> Verdict:
    """Return what a run of the guest tells."""
    lines, status = trial.lines, trial.status
    letters = [line for line in lines if line in guest.STAGES]
    if status == 0 and lines and lines[-1] == guest.DONE and letters == list(guest.STAGES):
        return Verdict(KvmState.WORKS, "runs virtual machines")
    missing = next((stage for letter, stage in guest.STAGES.items() if letter not in letters), "its end")
    if status == -signal.SIGXCPU:
        return Verdict(KvmState.BROKEN, f"runs virtual machines far too slowly: they do not get to {missing}")
    if status is None:
        return Verdict(KvmState.UNKNOWN, f"cannot be judged: this host is too busy for the trial to get to {missing}")
    if status != 0:
        said = lines[-1] if lines else "nothing"
        return Verdict(KvmState.UNKNOWN, f"cannot be judged: the trial ended with status {status} ({said})")
    said = lines[-1] if lines and lines[-1] not in guest.STAGES else "its guest saw wrong values"
    return Verdict(KvmState.BROKEN, f"does not run virtual machines: they fail at {missing} ({said})")

"""One login to a machine, for a bounded time: what it is, or why it cannot be used, in words with a remedy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from harness.machines.access import SSH_FAILED, run_on
from harness.operator.controllers.private import PrivateFiles, write_private
from harness.operator.controllers.probe_program import ProbedFacts, command, facts_of
from harness.operator.controllers.probe_way import LoginWay
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


@dataclass(frozen=True)
class ProbeTrouble:
    """Nothing was found out, and why; the message ends with what to do."""

    reason: TroubleReason
    message: str


Outcome = ProbedFacts | ProbeTrouble


def ask(way: LoginWay, key: bytes, files: PrivateFiles, *, stretch: float = 1.0) -> Outcome:
    """Log in once, over a way to a machine and with a key, and return what was found."""
    seconds = way.seconds(stretch) + LOGIN_SECONDS * stretch
    with files.use() as folder:
        private_key = write_private(folder / "key", key)
        try:
            done = run_on(way.machine(folder, stretch), command(), private_key=private_key, timeout=seconds)
        except CommandFailed as late:
            return _unreachable(way, f"no answer within {seconds:.0f} s {late.detail}".strip())
    return judged(way, done)


def judged(way: LoginWay, done: Completed) -> Outcome:
    """Return what a login that ended says."""
    if done.returncode == SSH_FAILED:
        said = _last(done.stderr) or "ssh said nothing"
        if any(words in said for words in REFUSED):
            message = f"{way.target} refused the key of {way.key_source}: {said}"
            remedy = f"add its public key to ~{way.user}/.ssh/authorized_keys on the machine, or correct spec.user"
            return ProbeTrouble(TroubleReason.KEY_REFUSED, f"{message}; {remedy}")
        return _unreachable(way, said)
    facts = facts_of(done.stdout)
    if facts is not None:
        return facts
    said = _last(done.stderr) or _last(done.stdout) or f"status {done.returncode}"
    remedy = f"let {way.user} run commands as root without a password: sudo -n true"
    return ProbeTrouble(TroubleReason.NOT_PERMITTED, f"{way.target} did not say what it is: {said}; {remedy}")


def _unreachable(way: LoginWay, why: str) -> ProbeTrouble:
    return ProbeTrouble(TroubleReason.UNREACHABLE, f"{way.target} cannot be reached {way.how}: {why}; {way.remedy}")


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(lines[-LAST_LINES:])[:LONGEST]

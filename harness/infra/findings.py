"""What checks found missing: reported all at once, each with the command that fixes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import BadInput

APT_INSTALL = "apt-get install --yes "


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it must be.

    Attributes:
        what: what was seen.
        why: what does not work because of it.
        remedy: the command (or the act) that fixes it.
        fatal: whether it keeps the work from being started; else it is advice.
    """

    what: str
    why: str
    remedy: str
    fatal: bool = True


def fatal(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings that keep the work from being started."""
    return [f for f in findings if f.fatal]


def remedies(findings: Sequence[Finding]) -> list[str]:
    """Return the commands that fix the findings, each once, in order; packages of the OS in one command."""
    apart = list(dict.fromkeys(f.remedy for f in findings))
    packages = [word for r in apart if r.startswith(APT_INSTALL) for word in r.removeprefix(APT_INSTALL).split()]
    others = [r for r in apart if not r.startswith(APT_INSTALL)]
    return ([APT_INSTALL + " ".join(sorted(set(packages)))] if packages else []) + others


def raise_if_any(findings: Sequence[Finding]) -> None:
    """Raise when one of the findings is fatal. Raises BadInput with all fatal findings and their remedies."""
    blocking = fatal(findings)
    if not blocking:
        return
    if len(blocking) == 1:
        only = blocking[0]
        raise BadInput(f"{only.what}: {only.why}", hint=only.remedy)
    raise BadInput(
        f"{len(blocking)} things are missing: {'; '.join(f.what for f in blocking)}",
        hint="; then: ".join(remedies(blocking)),
        detail="\n".join(f"- {f.what}: {f.why}\n  {f.remedy}" for f in blocking),
    )

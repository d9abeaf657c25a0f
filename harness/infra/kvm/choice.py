"""Whether a kind node gets this host's KVM: as the setting `kvm` says, or by what a trial shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from harness.infra.findings import Finding
from harness.infra.kvm.trial import KvmState, Verdict
from harness.infra.kvm.verdict import judge

Kvm = Literal["auto", "use", "hide"]
SLOW = "processors are emulated, so machines are about ten times slower"
FASTER = "run with --timeout-scale 10, or use a host with (nested) hardware virtualisation"


@dataclass(frozen=True)
class KvmChoice:
    """Whether KubeVirt uses this host's KVM, and why, in one line; else it emulates processors."""

    used: bool
    why: str


def choose(setting: Kvm, look: Callable[[], Verdict] = judge) -> KvmChoice:
    """Return whether KVM is used. `look`: judges it; called for `auto` alone."""
    if setting == "use":
        return KvmChoice(True, "/dev/kvm is used, whether it works or not (--kvm use)")
    if setting == "hide":
        return KvmChoice(False, "/dev/kvm is hidden from the node (--kvm hide): processors are emulated")
    found = look()
    if found.usable:
        return KvmChoice(True, f"/dev/kvm {found.why}")
    hidden = "" if found.state is KvmState.ABSENT else "it is hidden from the node, and "
    return KvmChoice(False, f"/dev/kvm {found.why}; {hidden}processors are emulated")


def findings(setting: Kvm, look: Callable[[], Verdict] = judge) -> list[Finding]:
    """Return what of this host's KVM a person should know before an instance is made."""
    if setting == "hide":
        return []
    found = look()
    if setting == "use":
        return [] if found.usable else [_forced(found)]
    if found.usable:
        return []
    force = "" if found.state is KvmState.ABSENT else "; --kvm use forces it"
    return [Finding(f"/dev/kvm {found.why}", SLOW, f"{FASTER}{force}", fatal=False)]


def _forced(found: Verdict) -> Finding:
    """Return the finding on a KVM that is to be used and is not known to work; one that is not there cannot be."""
    absent = found.state is KvmState.ABSENT
    why = "KubeVirt is to use it (--kvm use)" if absent else "machines print nothing, and time out (--kvm use)"
    return Finding(f"/dev/kvm {found.why}", why, "choose --kvm auto", fatal=absent)

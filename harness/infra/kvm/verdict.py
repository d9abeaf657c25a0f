"""Whether this host's KVM runs virtual machines: judged by running one, once per boot of the host."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from harness import paths
from harness.files import write_atomically
from harness.infra.host.record import boot_id
from harness.infra.kvm import guest
from harness.infra.kvm.trial import KvmState, Trial, Verdict, read, try_out

DEVICE = Path("/dev/kvm")
MACHINE = "x86_64"  # the guest is a program for it


def judge(
    device: Path = DEVICE,
    *,
    machine: str | None = None,
    kept: Path | None = None,
    run: Callable[[Path], Trial] | None = None,
) -> Verdict:
    """Return whether virtual machines run with a device.

    Args:
        machine: the host's architecture; this one's without it.
        kept: the file that remembers a verdict for as long as the host is up; in the cache without it.
        run: runs the guest; in a process of its own without it.
    """
    if not device.exists():
        return Verdict(KvmState.ABSENT, "does not exist")
    machine = machine or platform.machine()
    if machine != MACHINE:
        return Verdict(KvmState.UNKNOWN, f"cannot be judged on {machine}: the trial is a program for {MACHINE}")
    kept = kept or paths.cache_dir() / "kvm.json"
    key = _key(device)
    found = _remembered(kept, key)
    if found is None:
        found = read((run or try_out)(device))
        if found.state is not KvmState.UNKNOWN:
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(kept, json.dumps({"key": key, **asdict(found)}) + "\n")
    return found


def _key(device: Path) -> dict[str, object]:
    """Return what a verdict holds for: this boot of the host, this device node, this guest."""
    seen = device.stat()
    return {
        "boot": boot_id(),
        "device": [str(device), seen.st_rdev, seen.st_ino, seen.st_ctime_ns],
        "guest": guest.digest(),
    }


def _remembered(file: Path, key: dict[str, object]) -> Verdict | None:
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        return Verdict(KvmState(kept["state"]), str(kept["why"])) if kept["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None

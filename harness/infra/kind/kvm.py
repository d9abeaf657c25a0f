"""KVM of this host: whether it works, tried by running a guest, and how it is hidden from a node where it does not.

A node is a privileged container: it gets every device of the host whenever it starts, and so do KubeVirt's pods in it.
`useEmulation` does not help: KubeVirt uses /dev/kvm where a node has it. So the node itself removes the device, before
containerd starts, each time that it starts.
"""

from __future__ import annotations

import json
import platform
import signal
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal, Protocol

from harness import paths, proc
from harness.files import write_atomically
from harness.infra.findings import Finding
from harness.infra.host.layout import boot_id
from harness.infra.kind import vmm
from harness.interpreter import call
from harness.kube import Cluster
from harness.kube.resources import POD
from harness.proc import Completed

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
    words: list[str | Path] = [*call("harness.infra.kind.vmm"), device]
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
    letters = [line for line in lines if line in vmm.STAGES]
    if status == 0 and lines and lines[-1] == vmm.DONE and letters == list(vmm.STAGES):
        return Verdict(KvmState.WORKS, "runs virtual machines")
    missing = next((stage for letter, stage in vmm.STAGES.items() if letter not in letters), "its end")
    if status == -signal.SIGXCPU:
        return Verdict(KvmState.BROKEN, f"runs virtual machines far too slowly: they do not get to {missing}")
    if status is None:
        return Verdict(KvmState.UNKNOWN, f"cannot be judged: this host is too busy for the trial to get to {missing}")
    if status != 0:
        message = lines[-1] if lines else "nothing"
        return Verdict(KvmState.UNKNOWN, f"cannot be judged: the trial ended with status {status} ({message})")
    message = lines[-1] if lines and lines[-1] not in vmm.STAGES else "its guest saw wrong values"
    return Verdict(KvmState.BROKEN, f"does not run virtual machines: they fail at {missing} ({message})")


DEVICE = Path("/dev/kvm")
MACHINE = "x86_64"  # the guest is a program for it


def judge_kvm(
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
    verdict = _remembered(kept, key)
    if verdict is None:
        verdict = read((run or try_out)(device))
        if verdict.state is not KvmState.UNKNOWN:
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(kept, json.dumps({"key": key, **asdict(verdict)}) + "\n")
    return verdict


def _key(device: Path) -> dict[str, object]:
    """Return what a verdict holds for: this boot of the host, this device node, this guest."""
    status = device.stat()
    return {
        "boot": boot_id(),
        "device": [str(device), status.st_rdev, status.st_ino, status.st_ctime_ns],
        "guest": vmm.digest(),
    }


def _remembered(file: Path, key: dict[str, object]) -> Verdict | None:
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        return Verdict(KvmState(kept["state"]), str(kept["why"])) if kept["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


Kvm = Literal["auto", "use", "hide"]
SLOW = "processors are emulated, so machines are about ten times slower"
FASTER = "run with --timeout-scale 10, or use a host with (nested) hardware virtualisation"


@dataclass(frozen=True)
class KvmChoice:
    """Whether KubeVirt uses this host's KVM, and why, in one line; else it emulates processors."""

    used: bool
    why: str


def choose_kvm(setting: Kvm, look: Callable[[], Verdict] = judge_kvm) -> KvmChoice:
    """Return whether KVM is used. `look`: judges it; called for `auto` alone."""
    if setting == "use":
        return KvmChoice(True, "/dev/kvm is used, whether it works or not (--kvm use)")
    if setting == "hide":
        return KvmChoice(False, "/dev/kvm is hidden from the node (--kvm hide): processors are emulated")
    verdict = look()
    if verdict.usable:
        return KvmChoice(True, f"/dev/kvm {verdict.why}")
    hidden = "" if verdict.state is KvmState.ABSENT else "it is hidden from the node, and "
    return KvmChoice(False, f"/dev/kvm {verdict.why}; {hidden}processors are emulated")


def kvm_findings(setting: Kvm, look: Callable[[], Verdict] = judge_kvm) -> list[Finding]:
    """Return what of this host's KVM a person should know before an instance is made."""
    if setting == "hide":
        return []
    verdict = look()
    if setting == "use":
        return [] if verdict.usable else [_forced(verdict)]
    if verdict.usable:
        return []
    force = "" if verdict.state is KvmState.ABSENT else "; --kvm use forces it"
    return [Finding(f"/dev/kvm {verdict.why}", SLOW, f"{FASTER}{force}", fatal=False)]


def _forced(verdict: Verdict) -> Finding:
    """Return the finding on a KVM that is to be used and is not known to work; one that is not there cannot be."""
    absent = verdict.state is KvmState.ABSENT
    why = "KubeVirt is to use it (--kvm use)" if absent else "machines print nothing, and time out (--kvm use)"
    return Finding(f"/dev/kvm {verdict.why}", why, "choose --kvm auto", fatal=absent)


HANDLERS = "kubevirt.io=virt-handler"
UNIT = "vmatrix-hide-kvm.service"
FILE = f"/etc/systemd/system/{UNIT}"
CHANGED = "changed"
TEXT = """\
[Unit]
Description=Hide /dev/kvm from KubeVirt
DefaultDependencies=no
Before=containerd.service kubelet.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/rm -f /dev/kvm

[Install]
WantedBy=sysinit.target
"""
HIDE = f"""
set -e
printf '%s' "$1" > {FILE}
systemctl daemon-reload
systemctl enable --quiet {UNIT}
[ ! -e /dev/kvm ] || echo {CHANGED}
rm -f /dev/kvm
"""
# The minor number is KVM's own: https://docs.kernel.org/admin-guide/devices.html
SHOW = f"""
set -e
[ -e {FILE} ] || exit 0
systemctl disable --quiet {UNIT}
rm -f {FILE}
systemctl daemon-reload
[ -e /dev/kvm ] || mknod -m 0666 /dev/kvm c 10 232
echo {CHANGED}
"""


class Container(Protocol):
    """Runs a command in a node's container."""

    def __call__(self, *words: str) -> Completed: ...


def hide(inside: Container) -> bool:
    """Remove the device from the node, now and whenever it starts; return whether it was there.

    Raises CommandFailed when the node cannot.
    """
    return CHANGED in inside("sh", "-c", HIDE, "sh", TEXT).stdout


def show(inside: Container) -> bool:
    """Give the node back what `hide` took; return whether it had been taken."""
    return CHANGED in inside("sh", "-c", SHOW).stdout


def restart_handlers(cluster: Cluster) -> None:
    """Delete the pods that offer the device to others: they have the devices that the node had when they started."""
    for pod in cluster.list(POD, labels=HANDLERS).items:
        cluster.delete(POD, pod["metadata"]["name"], pod["metadata"]["namespace"])

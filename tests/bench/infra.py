"""How long the embedded infrastructure takes to come up and to go away, and how much memory its controllers use."""

from __future__ import annotations

import time
from pathlib import Path

from harness.cell.golden import ensure_golden
from harness.errors import InfraError
from harness.proc import Service
from tests.bench.figures import Ledger
from tests.bench.ground import Ground, open_site, vmatrix

UP_TARGET = 10.0
CONTROLLERS_TARGET = 300.0
API = "- until its API answers"
FIGURES: dict[str, tuple[float | None, str]] = {
    "infra up": (UP_TARGET, "`vmatrix infra up` from nothing, artifacts cached"),
    API: (None, "of that: the command's start, etcd, kube-apiserver"),
    "infra up, again": (None, "the same command on one that is up"),
    "golden image import": (None, "once per infrastructure: fetched from the mirror, verified"),
    "infra down": (None, "`vmatrix infra down`, nothing left"),
}


def measure(ground: Ground, ledger: Ledger, runs: int) -> None:
    """Bring it up, again, import the golden image, take it down; and that several times. It is down afterwards."""
    samples: dict[str, list[float]] = {name: [] for name in FIGURES}
    try:
        for _ in range(runs):
            began = time.time()
            samples["infra up"].append(command(ground, "up"))
            # The controllers are started at the moment in which the API server answers.
            samples[API].append(ground.layout.pidfile("kubevirt").stat().st_mtime - began)
            samples["infra up, again"].append(command(ground, "up"))
            samples["golden image import"].append(_import_golden(ground))
            samples["infra down"].append(command(ground, "down"))
    finally:
        for name, (target, note) in FIGURES.items():
            ledger.add(name, "s", samples[name], target=target, note=note)


def command(ground: Ground, verb: str, *options: str) -> float:
    """Run `vmatrix infra VERB` and return its seconds on the clock.

    Raises:
        InfraError: it failed.
    """
    done = vmatrix("infra", verb, *options, "--name", ground.settings.infra_name)
    if done.returncode != 0:
        raise InfraError(
            f"`vmatrix infra {verb}` ended with status {done.returncode}", detail=done.stderr or done.stdout
        )
    ground.say(f"infra {verb}: {done.seconds:.1f} s")
    return done.seconds


def _import_golden(ground: Ground) -> float:
    site = open_site(ground)
    image = site.image(ground.cell.machines[0].image)
    began = time.monotonic()
    ensure_golden(site, image)
    return time.monotonic() - began


def peak_mib(pid: int) -> float | None:
    """Return the most memory that a process ever had resident, None when it is gone (proc_pid_status(5), VmHWM)."""
    return _memory_mib(pid, "VmHWM:")


def resident_mib(pid: int) -> float | None:
    """Return the memory that a process has resident now, None when it is gone (proc_pid_status(5), VmRSS)."""
    return _memory_mib(pid, "VmRSS:")


def _memory_mib(pid: int, field: str) -> float | None:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(field)), None)


def controllers(ground: Ground, ledger: Ledger) -> None:
    """Add the peak memory of the process that is KubeVirt and CDI here; call it after the cells.

    Raises:
        InfraError: it does not run.
    """
    service = Service.load(ground.layout.pidfile("kubevirt"))
    peak = peak_mib(service.pid) if service is not None else None
    if peak is None:
        raise InfraError("the embedded controllers do not run", paths=(ground.layout.logfile("kubevirt"),))
    ledger.add("controllers, peak", "MiB", [peak], target=CONTROLLERS_TARGET, note="resident, after all cells above")

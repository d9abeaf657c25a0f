"""What many cells cost: 30, 100 and 300 that never start, and `vmatrix reap --expired` of 1000 that were left."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from harness.cell.golden import ensure_golden
from harness.errors import InfraError
from harness.kube.client import Cluster
from harness.kube.resources import CONFIG_MAP, NAMESPACE
from harness.model import LABEL_CELL, LABEL_EXPIRES, LABEL_MANAGED, LABEL_RUN, MANAGED_BY
from harness.proc import Service, run
from tests.bench.figures import Ledger
from tests.bench.ground import Ground, open_site
from tests.bench.many_cells import Price

CELLS, STEPS = 1000, (30, 100, 300)
SECONDS_TARGET, MEMORY_TARGET = 60.0, 150.0
AT_ONCE = 8
CELL_SECONDS = 60.0  # for each cell: against hanging
KIB = 1024


def measure(ground: Ground, ledger: Ledger, _: int) -> None:
    """Make and reap simulated cells, a few to many; then leave cells of one object and reap them by the command."""
    site = open_site(ground)
    ensure_golden(site, site.image(ground.cell.machines[0].image))
    for number in STEPS:
        _simulated(ground, ledger, number)
    leave(site.cluster, CELLS)
    before = _programs_seconds(ground)
    swept = _command(ground)
    programs = _programs_seconds(ground) - before
    note = f"`vmatrix reap --expired` of {CELLS} cells of one object each"
    ledger.add(f"sweep of {CELLS}", "s", [swept.seconds], target=SECONDS_TARGET, note=note)
    ledger.add("- processor time of the command", "s", [swept.processor], note="its own")
    ledger.add("- of the infra cluster", "s", [programs], note="of etcd, the API server, all controllers meanwhile")
    ledger.add(f"sweep of {CELLS}, memory", "MiB", [swept.peak_mib], target=MEMORY_TARGET, note="the command's most")


def _simulated(ground: Ground, ledger: Ledger, number: int) -> None:
    """Measure what cells cost that are made and reaped by the harness, but never start."""
    before = _programs_seconds(ground)
    words = ["--infra-name", ground.settings.infra_name, "--cells", str(number)]
    done = run([sys.executable, "-m", "tests.bench.many_cells", *words], timeout=number * CELL_SECONDS)
    price = Price(**json.loads(done.stdout))
    programs = _programs_seconds(ground) - before
    what, machines = f"{number} simulated cells", len(ground.cell.machines)
    note = f"of {machines} machines each, whose objects are made and reaped"
    ledger.add(f"{what}, made: requests", "", [price.made / number], note=f"for each, {note}")
    ledger.add("- reaped: requests", "", [price.reaped / number], note="for each")
    ledger.add("- memory", "MiB", [price.peak_mib], note="the most that the process had")
    ledger.add("- processor time", "s", [price.processor], note="of the process, for all")
    ledger.add("- of the infra cluster", "s", [programs], note="for all, its start included")
    ledger.add("- time", "s", [price.seconds], note="for all")


def _programs_seconds(ground: Ground) -> float:
    """Return the processor time that the programs of the infra cluster have taken so far."""
    services = [Service.load(pidfile) for pidfile in sorted(ground.layout.run.glob("*.pid"))]
    return sum(processor_seconds(service.pid) for service in services if service is not None)


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process, 0 when it is gone (proc_pid_stat(5): utime, stime)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def leave(api: Cluster, number: int) -> str:
    """Make expired cells: a namespace with one object each; return their run."""
    run = f"s{secrets.token_hex(3)[:5]}"

    def one(index: int) -> None:
        name = f"vmatrix-sweep-{run}-{index}"
        labels = {LABEL_MANAGED: MANAGED_BY, LABEL_RUN: run, LABEL_CELL: f"sweep-{index}", LABEL_EXPIRES: "1"}
        api.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        api.create(CONFIG_MAP, CONFIG_MAP.manifest("left", name, labels=labels, data={"one": "object"}))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one, range(number)))
    return run


@dataclass(frozen=True)
class Swept:
    """What a command took: seconds on the clock and of the processor, and the most memory (MiB)."""

    seconds: float
    processor: float
    peak_mib: float


def _command(ground: Ground) -> Swept:
    """Sweep by the command, as a person or a schedule would.

    Raises:
        InfraError: it failed.
    """
    program = str(Path(sys.executable).parent / "vmatrix")
    words = [program, "reap", "--expired", "--infra-name", ground.settings.infra_name]
    began = os.times().elapsed
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        said = process.stdout.read() if process.stdout is not None else ""
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise InfraError(f"`vmatrix reap --expired` ended with status {process.returncode}", detail=said)
    ground.say(said.splitlines()[-1])
    return Swept(os.times().elapsed - began, used.ru_utime + used.ru_stime, used.ru_maxrss / KIB)

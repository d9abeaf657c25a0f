"""What it costs to delete what many runs left: time and memory of `vmatrix reap --expired`, and requests per cell."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.cell.found import CellSelector
from harness.cell.teardown import reap
from harness.errors import InfraError
from harness.kube.client import Cluster
from harness.kube.resources import CONFIG_MAP, NAMESPACE
from harness.model import LABEL_CELL, LABEL_EXPIRES, LABEL_MANAGED, LABEL_RUN, MANAGED_BY
from tests.bench.figures import Ledger
from tests.bench.ground import Ground
from tests.counting import Counting

CELLS, STEPS = 1000, (30, 100, 300)
SECONDS_TARGET, MEMORY_TARGET = 60.0, 150.0
AT_ONCE = 8
CLOUD_SECONDS = 600.0  # for each cell to go: against hanging
KIB = 1024


def measure(ground: Ground, ledger: Ledger, _: int) -> None:
    """Leave cells and reap them: a few, more, many by the harness, and most by the command."""
    api = Cluster.from_kubeconfig(ground.layout.kubeconfig)
    for number in STEPS:
        counting = Counting(api)
        run = leave(api, number)
        reap(counting, CellSelector(run=run), seconds=CLOUD_SECONDS)
        note = f"{number} expired cells of one object each"
        ledger.add(f"sweep of {number}, requests", "", [counting.counts.total() / number], note=f"each of {note}")
    leave(api, CELLS)
    seconds, mib = _command(ground)
    note = f"`vmatrix reap --expired` of {CELLS} cells of one object each"
    ledger.add(f"sweep of {CELLS}", "s", [seconds], target=SECONDS_TARGET, note=note)
    ledger.add(f"sweep of {CELLS}, memory", "MiB", [mib], target=MEMORY_TARGET, note="the most that this command had")


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


def _command(ground: Ground) -> tuple[float, float]:
    """Run the command; return its seconds on the clock and its greatest memory in MiB."""
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
    return os.times().elapsed - began, used.ru_maxrss / KIB

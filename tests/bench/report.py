"""The report on a year of sixty cells: reading the history, judging it, writing what is made of it; and its size.

The history is made up (tests/unit/history/synthetic), the work on it is what `vmatrix report` does. Seconds are
the processor's: it waits for nothing but the disk, and other work on the host does not count.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from harness.history.file import FileStore
from harness.history.lines import History, cut_down
from harness.history.record import to_line
from harness.report.analysis.analyse import RecordFilter, analyse
from harness.report.output.document import document
from harness.report.page import render
from tests.bench.figures import Ledger
from tests.unit.history import synthetic

NIGHTS, CELLS = 365, 60
ANALYSIS_SECONDS = 2.0
PAGE_MIB = 3.0
MIB = 2**20
SELECTION = RecordFilter(tier="nightly", branch="main")


def measure(ledger: Ledger, runs: int) -> None:
    """Measure what becomes of a year."""
    records = synthetic.records(NIGHTS, CELLS)
    planned = synthetic.planned(NIGHTS, CELLS)
    size = f"{NIGHTS} nights x {CELLS} cells"
    with tempfile.TemporaryDirectory() as folder:
        store = FileStore(Path(folder) / "history.jsonl")
        store.append(records)
        ledger.add(f"history of {size}", "MiB", [store.path.stat().st_size / MIB], note="details of 30 days")
        ledger.add("read it", "s", [_timed(store.load) for _ in range(runs)])
        content = store.path.read_bytes()
        ledger.add(
            "compact it", "s", [_timed(lambda: cut_down(content, days=7, now=synthetic.NOW)) for _ in range(runs)]
        )
    judging = [_timed(lambda: analyse(records, planned, SELECTION, synthetic.NOW)) for _ in range(runs)]
    ledger.add(f"judge {size}", "s", judging, target=ANALYSIS_SECONDS)
    judged = analyse(records, planned, SELECTION, synthetic.NOW)
    history = History(records)
    ledger.add("write the document", "s", [_timed(lambda: document(judged, history)) for _ in range(runs)])
    made = document(judged, history)
    ledger.add("report.json", "MiB", [len(json.dumps(made, separators=(",", ":"))) / MIB])
    ledger.add("write the page", "s", [_timed(lambda: render(made)) for _ in range(runs)])
    ledger.add("index.html", "MiB", [len(render(made).encode()) / MIB], target=PAGE_MIB)
    full = synthetic.records(NIGHTS, CELLS, compacted=False)
    lines = sum(len(to_line(record)) for record in full)
    ledger.add("the same history with all details", "MiB", [lines / MIB])
    ledger.add("judge it", "s", [_timed(lambda: analyse(full, planned, SELECTION, synthetic.NOW))])


def _timed(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began

"""How long a whole cell takes, from `vmatrix run` to torn down, and how much memory the harness uses for it."""

from __future__ import annotations

from pathlib import Path

from harness.errors import ProductError
from harness.events import read as read_events
from tests.bench.figures import Ledger
from tests.bench.ground import TIER, Ground, vmatrix
from tests.bench.infra import peak_mib

CELL_TARGET = 150.0
HARNESS_TARGET = 300.0
STEPS = ("provision", "deploy", "collect", "teardown")
DETAIL_LINES = 30


def measure(ground: Ground, ledger: Ledger, runs: int) -> None:
    """Run the cell several times.

    Raises:
        ProductError: a run failed; its figures, and those of the runs before it, are in the ledger all the same.
    """
    walls: list[float] = []
    peaks: list[float] = []
    shares: list[dict[str, float]] = []
    try:
        for _ in range(runs):
            _one(ground, walls, peaks, shares)
    finally:
        ledger.add("cell cp1-w1", "s", walls, target=CELL_TARGET, note=f"`vmatrix run --tier {TIER}`, start to prompt")
        ledger.add("harness process, peak", "MiB", peaks, target=HARNESS_TARGET, note="resident, of the runs above")
        ledger.share("cell cp1-w1", shares)


def _one(ground: Ground, walls: list[float], peaks: list[float], shares: list[dict[str, float]]) -> None:
    run_id = ground.run_id()
    directory = ground.directory / run_id
    pids: list[int] = []
    seen: list[float] = []

    def look(_: str) -> None:
        """Look at each line of output, the last of which comes at the very end: the peak only ever grows."""
        if not pids:
            pids.extend(e["pid"] for e in read_events(directory) if e["event"] == "run-start")
        peak = peak_mib(pids[0]) if pids else None
        if peak is not None:
            seen.append(peak)

    done = vmatrix(
        *("run", ground.cell.id, "--tier", TIER, "--infra-name", ground.settings.infra_name),
        *("--runs", str(ground.directory), "--run-id", run_id),
        on_line=look,
    )
    ground.say(f"cell: {done.seconds:.1f} s, status {done.returncode}")
    walls.append(done.seconds)
    peaks.append(max(seen, default=0.0))
    shares.append(_steps(directory, done.seconds))
    if done.returncode != 0:
        raise ProductError(
            f"`vmatrix run` ended with status {done.returncode}",
            detail="\n".join(done.stdout.splitlines()[-DETAIL_LINES:]),
            paths=(directory,),
        )


def _steps(directory: Path, wall: float) -> dict[str, float]:
    """Return the seconds of the top steps, of all checks together, and what is neither."""
    events = read_events(directory)
    parts = dict.fromkeys(("provision", "deploy", "checks", "collect", "teardown"), 0.0)
    for event in events:
        if event["event"] == "step-end" and len(event["step"]) == 1 and event["step"][0] in STEPS:
            parts[event["step"][0]] += event["seconds"]
        elif event["event"] == "check":
            parts["checks"] += event["seconds"]
    parts["everything else"] = max(0.0, wall - sum(parts.values()))
    return parts

"""Which seed has ginkgo begin the curated specs that take long early, so that none of them is left to the end.

    python -m tests.bench.seeds VERSION JUNIT [--seeds N] [--processes N]

VERSION: of Kubernetes, whose e2e.test is cached. JUNIT: `checks/conformance/junit_01.xml` of a cell, which has how
long each spec took. The best seed goes to `seed` of matrix/conformance/MINOR.yml. An order is that of one list of
specs: with another version of e2e.test, a seed is as good as any other.
"""

from __future__ import annotations

import argparse
import heapq
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import proc
from harness.artifacts.recipe import Ref
from harness.artifacts.store import Store
from harness.validate.conformance.curated import load_curated
from harness.validate.conformance.ginkgo import PROCESSES, focus
from harness.validate.conformance.verdicts import read_verdicts
from harness.validate.expected import minor_of

TRY_SECONDS = 300.0  # to start e2e.test and have it list specs, on a busy host
SHOWN = 5


def order_of(said: str, names: Sequence[str]) -> list[str]:
    """Return specs in the order in which e2e.test names them; it puts their labels after the name, in brackets."""
    found = dict[str, None]()
    for line in said.splitlines():
        named = [name for name in names if f"{line.strip()} [".startswith(f"{name} [")]
        found |= dict.fromkeys([max(named, key=len)] if named else [])
    return list(found)


def span(order: Sequence[str], seconds: Mapping[str, float], processes: int) -> float:
    """Return how long specs take when each process takes the next one of an order."""
    free = [0.0] * processes
    for name in order:
        heapq.heapreplace(free, free[0] + seconds.get(name, 0.0))
    return max(free)


def main() -> None:
    """Try seeds and print the best ones."""
    parser = argparse.ArgumentParser(description="which seed begins the specs that take long early")
    parser.add_argument("version")
    parser.add_argument("junit", type=Path)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--processes", type=int, default=PROCESSES, help="of ginkgo (default: the most it has)")
    given = parser.parse_args()
    names = [spec.name for spec in load_curated(minor_of(given.version)).specs]
    seconds = {name: verdict.seconds for name, verdict in read_verdicts(given.junit, names).items()}
    artifact = Store().cached(Ref("e2e.test", given.version))
    if artifact is None:
        parser.error(f"e2e.test {given.version} is not cached; `vmatrix artifacts build e2e.test@{given.version}`")
    program = artifact.file("e2e.test")
    options = ["--ginkgo.dry-run", "--ginkgo.v", "--ginkgo.no-color", f"--ginkgo.{focus(names).removeprefix('--')}"]
    found: list[tuple[float, int]] = []
    for seed in range(1, given.seeds + 1):
        with TemporaryDirectory() as place:  # e2e.test leaves files
            in_place = {"TMPDIR": place}
            done = proc.run([program, *options, f"--ginkgo.seed={seed}"], timeout=TRY_SECONDS, env=in_place)
        order = order_of(done.stdout, names)
        if len(order) != len(names):
            parser.error(f"e2e.test named {len(order)} of {len(names)} specs")
        found.append((span(order, seconds, given.processes), seed))
    for at, seed in sorted(found)[:SHOWN]:
        print(f"seed {seed}: {at:.1f} s")  # noqa: T201 - what it is for
    least = sum(seconds.values()) / given.processes
    print(f"usual: {sorted(found)[len(found) // 2][0]:.1f} s; least: {least:.1f} s")  # noqa: T201


if __name__ == "__main__":
    main()

"""How long a plan takes, over the shortest time that it could: our order and admission against shards and fixed -n.

A simulation, no cluster: the cells' true durations are drawn around what is expected of them, with the spread that was
recorded. Ours is the real queue and admission (tests/unit/schedule/simulation.py); the others are written down here.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from statistics import median, quantiles, stdev

from harness.model import Cell
from harness.paths import project_dir
from harness.plan import make_cell
from harness.plan.tiers import tier_cells
from harness.schedule.durations import estimate
from harness.schedule.placement import Demand, NodeRoom, demand_of
from harness.schedule.shards import Shard, shard
from harness.spec import Spec, load_spec
from tests.bench.figures import Ledger
from tests.unit.schedule.simulation import SimulatedRun, World

CELLS, FEW = 300, 30
DRAWS = 3  # of the many cells, for each of the bench's runs; ten times as many of the few
TARGET = 1.15
HUB_MIB, HUB_CPUS = 128 * 1024, 32
# Whole runs of one cell on the embedded infrastructure over the estimate of that cell (94.4 s for cp1-w1 fresh, 88 for
# all-in-one), seconds: 102, 139 (docs/benchmarks.md), 125 and 145 (runs of the day before the first release).
RECORDED = (102 / 94.4, 139 / 94.4, 125 / 94.4, 145 / 88.0)
# The longer plan: cells of 14 to 68 minutes (fresh, scale, upgrade) on machines of 4.3 GiB, topologies of 1, 3, 5 and 7
# machines, error 0.2; the published durations of kubespray's CI are of that kind.
LONG_MINUTES, LONG_ERROR = {"fresh": 14.0, "scale": 28.0, "upgrade": 48.0}, 0.2
LONG_MACHINES, LONG_MIB = (1, 3, 5, 7), int(4.3 * 1024)
EXTRA_MACHINE_MINUTES = 3.3


@dataclass(frozen=True)
class Job:
    """One cell: what it wants, what it is expected to take and what it really takes (seconds)."""

    cell: Cell
    demand: Demand
    expected: float
    seconds: float


@dataclass(frozen=True)
class Draw:
    """One plan with durations, and the infra that it runs on (equal nodes, MiB and CPUs in all)."""

    jobs: tuple[Job, ...]
    nodes: int = 1

    @property
    def bound(self) -> float:
        """Return the shortest time that there could be: all work at full memory or CPUs, or the longest cell."""
        memory = sum(j.demand.memory_mib * j.seconds for j in self.jobs) / HUB_MIB
        cpus = sum(j.demand.cpus * j.seconds for j in self.jobs) / HUB_CPUS
        return max(memory, cpus, *(j.seconds for j in self.jobs))

    @property
    def safe(self) -> int:
        """Return the largest fixed number of cells at once that can never overcommit."""
        return max(1, HUB_MIB // max(j.demand.memory_mib for j in self.jobs))


Policy = Callable[[Draw], float]


def measure(ledger: Ledger, runs: int) -> None:
    """Add each policy's makespan over the lower bound: on many and few cells of the matrix, and on longer ones."""
    for title, make, draws in (
        (f"{CELLS} cells of the matrix", matrix_draw, DRAWS),
        (f"{FEW} cells of the matrix", partial(matrix_draw, count=FEW), DRAWS * CELLS // FEW),
        (f"{FEW} cells of 14 to 68 minutes", partial(long_draw, count=FEW), DRAWS * CELLS // FEW),
    ):
        plans = [make(Random(seed)) for seed in range(draws * runs)]  # noqa: S311 - the same plans every time
        for name, policy in POLICIES.items():
            ratios = [policy(plan) / plan.bound for plan in plans]
            target = TARGET if name == OURS else None
            found = f"{len(plans)} draws, the slowest tenth above {_p90(ratios):.2f}"
            ledger.add(f"makespan, {title}: {name}", "x", [median(ratios)], target=target, note=found)


def _p90(ratios: Sequence[float]) -> float:
    return quantiles(ratios, n=10)[-1] if len(ratios) > 1 else ratios[0]


def matrix_draw(random: Random, count: int = CELLS, nodes: int = 1) -> Draw:
    """Return cells of every topology and scenario of the matrix, as many of each as chance has it."""
    spec = load_spec(project_dir() / "matrix")
    kinds = _kinds(spec)
    spread = stdev(math.log(ratio) for ratio in RECORDED)
    return Draw(tuple(_job(random.choice(kinds), n, None, spread, random) for n in range(count)), nodes)


def _kinds(spec: Spec) -> list[Cell]:
    smoke = tier_cells(spec, "smoke", "embedded")[0]
    return [
        made
        for topology, scenario in itertools.product(spec.topologies, spec.scenarios)
        if (made := make_cell(spec, {**smoke.values, "topology": topology, "scenario": scenario})).machines
    ]


def long_draw(random: Random, count: int = CELLS) -> Draw:
    """Return cells of one, three, five and seven machines that take 14 to 68 minutes."""
    model = tier_cells(load_spec(project_dir() / "matrix"), "smoke", "embedded")[0]
    jobs = []
    for number in range(count):
        machines, scenario = random.choice(LONG_MACHINES), random.choice(list(LONG_MINUTES))
        made = [model.machines[0].__class__(f"m-{n}", ("node",), 2, LONG_MIB, 12, "") for n in range(machines)]
        cell = Cell(f"long{number}", {}, scenario, (), tuple(made), {})
        expected = 60 * (LONG_MINUTES[scenario] + EXTRA_MACHINE_MINUTES * (machines - 1))
        jobs.append(_job(cell, number, expected, LONG_ERROR, random))
    return Draw(tuple(jobs))


def _job(cell: Cell, number: int, expected: float | None, spread: float, random: Random) -> Job:
    seconds = estimate(cell) if expected is None else expected
    named = Cell(f"{cell.id}-{number}", cell.values, cell.scenario, cell.phases, cell.machines, cell.vars)
    return Job(named, demand_of(cell), seconds, seconds * random.lognormvariate(0, spread))


def ours(draw: Draw, patience: float = 1800.0) -> float:
    """Return the makespan of the product's own queue and admission."""
    size = (HUB_MIB // draw.nodes, 1000 * HUB_CPUS // draw.nodes)
    nodes = tuple(NodeRoom(f"n{n}", *size, 1000) for n in range(draw.nodes))
    world = World(nodes, Random(1))  # noqa: S311 - the same every time
    real = {job.cell.id: job.seconds for job in draw.jobs}
    expected = {job.cell.id: job.expected for job in draw.jobs}
    run = SimulatedRun(world, "bench", [j.cell for j in draw.jobs], real, expected, patience=patience, boot=0.0)
    world.play()
    return max(run.ended.values())


def pooled(order: Callable[[Draw], list[Job]]) -> Policy:
    """Return a policy of as many cells at once as are safe, in an order: a fixed -n."""

    def policy(draw: Draw) -> float:
        free = [0.0] * draw.safe
        for job in order(draw):
            heapq.heappush(free, heapq.heappop(free) + job.seconds)
        return max(free)

    return policy


def sharded(split: Callable[[Draw], list[list[Job]]]) -> Policy:
    """Return a policy of as many independent jobs as are safe, each of which has its own list of cells."""
    return lambda draw: max(sum(job.seconds for job in part) for part in split(draw))


def as_given(draw: Draw) -> list[Job]:
    """Return cells as the plan has them."""
    return list(draw.jobs)


def longest_first(draw: Draw) -> list[Job]:
    """Return cells with the longest expected first."""
    return sorted(draw.jobs, key=lambda job: (-job.expected, -job.demand.memory_mib, job.cell.id))


def by_hash(draw: Draw) -> list[list[Job]]:
    """Split cells by a hash of their ids."""

    def part(job: Job) -> int:
        return int(hashlib.sha256(job.cell.id.encode()).hexdigest(), 16) % draw.safe

    return [[job for job in draw.jobs if part(job) == index] for index in range(draw.safe)]


def round_robin(draw: Draw) -> list[list[Job]]:
    """Deal cells out one after the other."""
    return [list(draw.jobs[index :: draw.safe]) for index in range(draw.safe)]


def balanced(draw: Draw) -> list[list[Job]]:
    """Split cells as `--shard` does, by expected duration."""
    jobs = {job.cell.id: job for job in draw.jobs}
    cells = [job.cell for job in draw.jobs]
    parts = [shard(cells, Shard(n + 1, draw.safe), lambda cell: jobs[cell.id].expected) for n in range(draw.safe)]
    return [[jobs[cell.id] for cell in part] for part in parts]


def by_memory(order: Callable[[Draw], list[Job]], start: Callable[[State], Job | None]) -> Policy:
    """Return a policy that starts cells as memory allows, on one node: `start` says which one next, if any."""

    def policy(draw: Draw) -> float:
        state = State(order(draw), [], HUB_MIB, 0.0)
        for _ in range(2 * len(draw.jobs)):
            while (job := start(state)) is not None:
                state.begin(job)
            if not state.running:
                break
            state.end_one()
        return state.now

    return policy


@dataclass
class State:
    """What waits (in order), what runs (real end, expected end, cell), and the memory that is left (MiB)."""

    waiting: list[Job]
    running: list[tuple[float, float, str, Job]]
    free: int
    now: float

    def begin(self, job: Job) -> None:
        """Start a cell."""
        self.waiting.remove(job)
        self.free -= job.demand.memory_mib
        heapq.heappush(self.running, (self.now + job.seconds, self.now + job.expected, job.cell.id, job))

    def end_one(self) -> None:
        """Let the next cell end."""
        self.now, _, _, job = heapq.heappop(self.running)
        self.free += job.demand.memory_mib


def in_order(state: State) -> Job | None:
    """Start the first or nothing."""
    return state.waiting[0] if state.waiting and state.waiting[0].demand.memory_mib <= state.free else None


def skipping(state: State) -> Job | None:
    """Start the first that fits."""
    return next((job for job in state.waiting if job.demand.memory_mib <= state.free), None)


def easy(state: State) -> Job | None:
    """Start the first that fits and does not keep the very first back (EASY backfilling).

    The very first gets a shadow reservation: the moment when enough of what runs is expected to have ended. Another one
    may start before it when it is expected to end by then, or when there is room for both at that moment.
    """
    if not state.waiting or in_order(state) is not None:
        return in_order(state)
    first, room, shadow = state.waiting[0], state.free, state.now
    for end, memory in sorted(
        (max(expected, state.now), job.demand.memory_mib) for _, expected, _, job in state.running
    ):
        if room >= first.demand.memory_mib:
            break
        room, shadow = room + memory, end
    spare = room - first.demand.memory_mib
    for job in state.waiting[1:]:
        need = job.demand.memory_mib
        if need <= state.free and (state.now + job.expected <= shadow or need <= spare):
            return job
    return None


OURS = "ours (longest first, skip-ahead, admission)"
POLICIES: dict[str, Policy] = {
    OURS: ours,
    "longest first, EASY backfilling": by_memory(longest_first, easy),
    "longest first, no skip-ahead": by_memory(longest_first, in_order),
    "as given, skip-ahead": by_memory(as_given, skipping),
    "as given, no skip-ahead": by_memory(as_given, in_order),
    "fixed -n, longest first": pooled(longest_first),
    "fixed -n, as given": pooled(as_given),
    "static shards, balanced": sharded(balanced),
    "static shards, round-robin": sharded(round_robin),
    "static shards, by hash": sharded(by_hash),
}

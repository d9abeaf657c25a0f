"""Further cells that tell suspects apart: possible ones with their values, the cheapest of those that tell most.

They are run into the run whose failures they are about, one after the other: each decides which comes next.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from harness import proc
from harness.errors import EXIT_HARNESS, EXIT_LEAKED, EXIT_OK, VmatrixError
from harness.events import Recorder
from harness.history.record import Record
from harness.history.store import open_store
from harness.interpreter import vmatrix_call
from harness.model import Cell
from harness.plan import make_cell
from harness.plan.changed import owners_of
from harness.plan.goal import Goal, goal_of
from harness.report import run_reports
from harness.report.records import keep, records_of
from harness.report.results import Culprit, RunResult, load
from harness.report.suspects import Explained, Suspect, explained, of_run, since, worth_showing
from harness.rundir import RunDir
from harness.schedule.durations import Durations
from harness.session.bisection import Repository, bisected
from harness.session.selection import profile_of
from harness.spec import Spec
from harness.spec.project import Project
from harness.spec.rules import Row, Rulebook, conflict

CANDIDATES = 300  # cells of which the best is taken
MOST_JOINED = 8  # suspects whose values one candidate has
SURE = 0.97  # a suspect that is so likely needs no further cell
AS_GOOD = 0.02  # bits, by which a cell may tell less than the best and be taken because it is cheaper


@dataclass(frozen=True)
class FollowUp:
    """What may explain the failures of runs, and the cell that tells the suspects apart.

    cell: None where none does.  why: then, for each failure that nobody is named for, why.
    """

    failures: tuple[Explained, ...]
    cell: Cell | None
    why: tuple[str, ...] = ()


def follow_up(spec: Spec, infra: str, results: Sequence[RunResult], seconds: Callable[[Cell], float]) -> FollowUp:
    """Return what may explain the failures of some runs together, and the next cell to run.

    Args:
        seconds: what a cell is expected to take.
    """
    outcomes = [outcome for result in results for outcome in of_run(result)]
    goal = goal_of(spec, None, infra)
    failures = tuple(worth_showing(explained(outcomes, together=spec.together, goal=goal)))
    cut_off = {cell.id for result in results for cell in result.cells if cell.incomplete}
    there = frozenset(frozenset(outcome.values.items()) for outcome in outcomes if outcome.cell not in cut_off)
    random = Random(len(there))  # noqa: S311 - the same candidates each time
    row = further(goal, failures, random, lambda row: seconds(make_cell(spec, row)), there)
    if row is not None:
        return FollowUp(failures, make_cell(spec, row))
    return FollowUp(failures, None, tuple(why_none(goal, outcome) for outcome in failures if outcome.named is None))


def why_none(goal: Goal, failure: Explained) -> str:
    """Say why no cell tells apart what may explain a failure."""
    what, book = failure.keys[0][0], Rulebook.of(goal.rules)
    if failure.by_chance:
        return f"{what}: most likely by chance"
    if any(suspect.around for suspect in failure.suspects[:2]):
        return f"{what}: no cell chooses its node, runner or hour"
    match _matrix(failure)[:2]:
        case [first, second]:
            both = [(first, second), (second, first)]
            pairs = [(one, other) for one, other in both if not {*other.values} <= {*one.values}]
        case _:
            return f"{what}: it may well be chance, and no other cell can have what this one has"
    for one, other in pairs:
        apart = [domains for domains in _without(goal, one, other) if all(domains.values())]
        if not any(book.feasible(domains) for domains in apart):
            rules = dict.fromkeys(rule.why for domains in apart for rule in conflict(domains, goal.rules))
            because = f": {'; '.join(rules)}" if rules else ""
            return f"{what}: every possible cell with {one.said} has {other.said}, too{because}"
    return f"{what}: no possible cell tells more of {first.said} and {second.said}"


def _without(goal: Goal, suspect: Suspect, other: Suspect) -> list[dict[str, frozenset[str]]]:
    """Return what a cell may have that has all of one suspect's values and lacks one of the other's."""
    chosen = dict(suspect.values)
    domains = {
        axis: frozenset(known) & ({chosen[axis]} if axis in chosen else set(known))
        for axis, known in goal.values.items()
    }
    return [
        {**domains, axis: domains[axis] - {value}}
        for axis, value in other.values
        if (axis, value) not in suspect.values and axis in domains
    ]


def further(
    goal: Goal,
    failures: Sequence[Explained],
    random: Random,
    seconds: Callable[[Row], float],
    there: Collection[frozenset[tuple[str, str]]] = (),
) -> Row | None:
    """Return the cell that tells most of the suspects of all failures; None where none tells anything.

    A candidate has the values of a few suspects, drawn by their likelihood, and any on the other axes. What it tells of
    a failure is the entropy of whether it will fail so: one bit where its suspects have a half of the likelihood. That
    counts by how likely there is a culprit at all.

    Args:
        there: the values of cells that have run to their end.
    """
    unsure = [(1 - failure.chance, s) for failure in failures if (s := _matrix(failure)) and s[0].share < SURE]
    book, pool = Rulebook.of(goal.rules), [suspect for _, suspects in unsure for suspect in suspects]
    shares = [suspect.share for suspect in pool]
    rows = (
        book.solve(_domains(goal.values, random.choices(pool, shares, k=random.randint(1, MOST_JOINED)), random))
        for _ in range(CANDIDATES if pool else 0)
    )
    new = [row for row in rows if row is not None and frozenset(row.items()) not in there]
    told = [(sum(weight * _entropy(s, row) for weight, s in unsure), row) for row in new]
    best = max((bits for bits, _ in told), default=0.0)
    if best <= AS_GOOD:
        return None
    return min((row for bits, row in told if bits >= best - AS_GOOD), key=seconds)


def _matrix(failure: Explained) -> list[Suspect]:
    return [suspect for suspect in failure.suspects if not suspect.around]


def _domains(
    values: Mapping[str, Sequence[str]], suspects: Sequence[Suspect], random: Random
) -> dict[str, tuple[str, ...]]:
    """Return what a cell may have that has the values of the first suspect, and of the others that go with it."""
    chosen: dict[str, str] = {}
    for suspect in suspects:
        if all(chosen.get(axis, value) == value and value in values[axis] for axis, value in suspect.values):
            chosen.update(suspect.values)
    return {
        axis: (chosen[axis],) if axis in chosen else tuple(random.sample(known, len(known)))
        for axis, known in values.items()
    }


def _entropy(suspects: Sequence[Suspect], row: Row) -> float:
    mass = sum(s.share for s in suspects if all(row.get(axis) == value for axis, value in s.values))
    return -sum(p * math.log2(p) for p in (mass, 1 - mass) if 0 < p < 1)


@dataclass(frozen=True)
class Pursuit:
    """What follows a run whose cells failed: further cells, and the search for commits.

    run: its id.  options: those that lead to its infra cluster.  say: told what is going on.
    """

    project: Project
    run: str
    options: Sequence[str]
    say: Callable[[str], None]

    @property
    def _files(self) -> RunDir:
        return RunDir.of(self.project.settings.runs, self.run)

    def _result(self) -> RunResult:
        return load(self._files.path, quarantine=self.project.spec.quarantine)

    def _found(self) -> FollowUp:
        spec, settings = self.project.spec, self.project.settings
        durations = Durations.load(settings, os.environ)
        infra = profile_of(spec, settings)
        return follow_up(spec, infra, [self._result()], lambda cell: durations.expected(cell).seconds)

    def further(self, most: int) -> int:
        """Run further cells into the run until they tell no more; return the worst of their exit codes that matter.

        What such a cell finds out of the product is not news: a leak or a bug in vmatrix is, and so is a signal.
        """
        codes: list[int] = []
        cells: list[str] = []
        explained = self._found()
        try:
            while explained.cell is not None and len(cells) < most:
                self.say(
                    f"further cell {len(cells) + 1} of at most {most}, to tell suspects apart: {explained.cell.id}"
                )
                cells.append(explained.cell.id)
                codes.append(proc.attend(vmatrix_call("run", explained.cell.id, "--into", self.run, *self.options)))
                if proc.by_signal(codes[-1]) or self._cut_off(cells[-1]):
                    break
                explained = self._found()
        finally:  # also where a signal ended the last one
            self._note(explained, cells, most)
        return next((code for code in codes if proc.by_signal(code) or code in (EXIT_LEAKED, EXIT_HARNESS)), EXIT_OK)

    def _cut_off(self, name: str) -> bool:
        return all(cell.incomplete for cell in self._result().cells if cell.id == name)

    def _note(self, explained: FollowUp, cells: Sequence[str], most: int) -> None:
        """Write down which further cells were run, and why there are no more."""
        open_ones = [failure for failure in explained.failures if failure.named is None]
        why = explained.why or tuple(f"{failure.keys[0][0]}: {most} are the most" for failure in open_ones)
        if cells and self._cut_off(cells[-1]):
            why = (f"{cells[-1]} was not run to its end; to go on: vmatrix suspect {self.run} --run",)
        elif cells and not explained.failures:
            why = ("what failed came most likely by chance: no suspect is left",)
        if cells or explained.failures:
            Recorder(self._files.path).write("follow-up", cells=list(cells), no_further=list(why))
        for line in why:
            self.say(f"no further cell: {line}")

    def bisect(self) -> None:
        """Find the commit that each named suspect came with, by runs of the cheapest cell that fails by it.

        That is the one that takes least for each failure that it has: runs of a cell tell of all of them.
        """
        durations, explained = Durations.load(self.project.settings, os.environ), self._found()
        history = open_store(self.project.settings, os.environ).load().records
        records = [record for record in history if record.where.commit and not record.where.changed]
        by_id = {cell.id: cell for cell in map(self._cell, self._result().values.values())}
        named = [failure for failure in explained.failures if failure.named is not None and not failure.named.around]
        failures = Counter(cell for failure in named for cell in failure.cells)
        for failure in named:
            assert failure.named is not None  # noqa: S101 - chosen above
            own = [
                by_id[c] for c in failure.cells if c in by_id and set(failure.named.values) <= by_id[c].values.items()
            ]
            cell = min(own, key=lambda cell: durations.expected(cell).seconds / failures[cell.id]).id
            culprit = self._culprit(failure, failure.named, cell, records)
            self.say(f"{failure.named.said}: {culprit.said}")
            Recorder(self._files.path).write("culprit", cell=cell, **culprit.event)

    def _cell(self, values: Mapping[str, str]) -> Cell:
        return make_cell(self.project.spec, values)

    def _culprit(self, failure: Explained, suspect: Suspect, cell: str, records: Sequence[Record]) -> Culprit:
        checks = tuple(title for title, _ in failure.keys)
        pairs = ((axis.name, value) for axis in self.project.spec.axes for value in axis.values)
        globs = tuple(dict.fromkeys(p for axis, v in pairs if (axis, v.id) in suspect.values for p in v.paths))
        none = Culprit(suspect.values, checks, paths=globs)
        try:
            repository = Repository.of(self.project.directory)
            own = repository.ancestors(self._commit())  # what other branches had tells nothing of it
            tested = sorted((r for r in records if r.where.commit in own), key=lambda r: own[r.where.commit])
            ends = since(tested, suspect.values, checks)
            if ends is None:
                return replace(none, why="the history has no commit at which these values passed before")
            commits = ends[0].where.commit, ends[1].where.commit
            runs = self.project.settings.runs
            options = [*self.options, *self._suites(cell)]
            search = bisected(repository, cell, commits, runs, options, self.say, checks)
        except VmatrixError as error:
            return replace(none, why=error.summary)
        if len(search.open) != 1:
            return replace(none, why=f"{len(search.open)} commits could not be told apart: {', '.join(search.open)}")
        commit = repository.revision(search.open[0])
        owners = owners_of(repository.root, repository.changed_in(commit.name))
        return Culprit(suspect.values, checks, commit.name, commit.title, commit.author, commit.date, owners)

    def _commit(self) -> str:
        """Return the commit that the run was made at; that of the checkout where the run does not say it."""
        return next((record.where.commit for record in records_of(self._files.path) if record.where.commit), "HEAD")

    def _suites(self, cell: str) -> list[str]:
        """Return the options by which a cell of its tier, planned or not, has the suites of that; others have all."""
        result, spec = self._result(), self.project.spec
        tier, values = spec.tiers.get(result.tier or ""), result.values.get(cell, {})
        if tier is None:
            return []
        goal = goal_of(spec, result.tier, profile_of(spec, self.project.settings))
        return ["--tier", str(result.tier)] if values in tier.pinned or goal.allows(values) else []

    def write(self) -> None:
        """Write the run's reports and records anew, with what was found out."""
        run_reports.write_all(self._result(), self._files)
        keep(self._files.path, self.project.settings, quarantine=self.project.spec.quarantine)


def pursue(pursuit: Pursuit, most: int, *, bisect: bool) -> int:
    """Tell a run's suspects apart and find out since when they fail; return an exit code that matters, 0 without one.

    Args:
        most: further cells.
    """
    code = EXIT_OK
    try:
        if most:
            code = pursuit.further(most)
        if bisect and not proc.by_signal(code):
            pursuit.bisect()
    finally:  # what is known stands in the reports, also where the search was interrupted
        pursuit.write()
    return code

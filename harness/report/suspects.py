"""What could explain failures: values, pairs and triples that failing cells have and passing ones have not.

Every combination in a failing cell is a hypothesis, and that the failures are flakes is one, too. How likely each is
follows from Bayes' rule: cells with the culprit fail, others fail at the check's flake rate, and few values are more
likely than many. A passing cell so clears what it has, and a cell that says nothing (in quarantine, failed by the
infrastructure, not judged) changes nothing. Which further cells are run to tell suspects apart:
harness/session/follow_up.py.

Sources: BEN ranks suspicious combinations of a covering array and makes tests that tell them apart (Ghandehari, Lei,
Xie, Kuhn, Kacker 2012); which arrays name a culprit by themselves are the locating and detecting arrays of Colbourn and
McClary (2008); splitting the hypotheses in halves under noise is generalised binary search (Nowak 2011).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

from harness.check_result import CheckResult, signature_of_text
from harness.history.record import Record
from harness.model import Outcome
from harness.plan.goal import Goal
from harness.report.analysis.checks import BAD
from harness.report.analysis.failures import failures_of
from harness.report.analysis.nights import Night
from harness.report.cell import CellResult, Step
from harness.report.results import RunResult
from harness.spec.rules import Rulebook

FLAKE = 0.02  # rate at which a check fails by chance where nothing is known of it
MISSED = 0.002  # how often a cell with the culprit passes all the same
LEAST_FLAKE, MOST_FLAKE = 0.002, 0.5
# How likely a failure has its cause in so many values together, before anything was seen; most are chance. So the first
# further cell mostly has all that may explain a lone failure, and where it passes no other one is spent on it.
BY_SIZE = {1: 0.08, 2: 0.04, 3: 0.004}
TOGETHER = {2: 0.03, 3: 0.06}  # in values of axes that a tier covers together, since somebody suspected them before
AROUND = 0.01  # in the node, the runner or the hour
CHANCE = 0.3
NAMED = 0.85  # from here on a suspect is named
WORTH = 0.01  # below which a suspect is not shown
SHOWN = 3  # suspects of a failure
MOST_EXPLAINED = 10  # failures of different cells
USUAL = 50  # judged cells that the usual flake rate counts for
INFRA = "infra"

Value = tuple[str, str]  # axis, value
Key = tuple[str, str]  # a check's title or a step's name, and the failure's signature


@dataclass(frozen=True)
class Observation:
    """What a cell says: its values by axis, and where and when it ran (`around`: its nodes, runner, hour, host load).

    failed: the failures that count.  infra: those of the infrastructure, which no value of the matrix explains.
    passed: titles of the checks, and names of the steps, that passed.
    """

    cell: str
    values: Mapping[str, str]
    failed: frozenset[Key]
    passed: frozenset[str]
    around: frozenset[Value] = frozenset()
    infra: frozenset[Key] = frozenset()


@dataclass(frozen=True)
class Suspect:
    """Values that may be the cause together.

    share: how likely, from 0 to 1.  failed, judged: of the cells with all of them.  others_failed, others: of the rest.
    around: it is not a value of the matrix, but where or when cells ran.
    """

    values: tuple[Value, ...]
    share: float
    failed: int
    judged: int
    others_failed: int
    others: int
    around: bool = False

    @property
    def evidence(self) -> str:
        """Return the numbers in words."""
        of = "it" if len(self.values) == 1 else "all of them" if len(self.values) > 2 else "both"
        return f"{self.failed} of {self.judged} cells with {of} failed, {self.others_failed} of {self.others} others"

    @property
    def said(self) -> str:
        """Return the values in words."""
        return " with ".join(f"{axis} {value}" for axis, value in self.values)


@dataclass(frozen=True)
class Explained:
    """Failures of the same cells, with what may explain them.

    keys: what failed.  cells: where.  suspects: the likeliest first.  chance: how likely it was just chance.
    passed: in how many cells the same passed.
    """

    keys: tuple[Key, ...]
    cells: tuple[str, ...]
    suspects: tuple[Suspect, ...]
    chance: float
    passed: int = 0

    @property
    def by_chance(self) -> bool:
        """Tell whether no value is to blame: it is likely enough that a failure which others have not was a flake."""
        return self.chance >= NAMED and self.passed > 0

    @property
    def named(self) -> Suspect | None:
        """Return the suspect that is likely enough to be named, None without one."""
        first = self.suspects[0] if self.suspects else None
        return first if first is not None and first.share >= NAMED else None


def explained(
    observations: Sequence[Observation],
    *,
    together: Iterable[Collection[str]] = (),
    flakes: Mapping[str, float] | None = None,
    goal: Goal | None = None,
) -> tuple[Explained, ...]:
    """Return what may explain each failure, those in most cells first. Failures of the same cells are explained once.

    Args:
        together: groups of axes that some tier covers together.
        flakes: the rate at which a check failed by chance of late, by its title.
        goal: what cells there can be. Values that no cell has apart are one suspect, that of the fewest values.
    """
    table = _Table(observations, [frozenset(axes) for axes in together], goal)
    merged: dict[tuple[int, bool], tuple[int, list[Key]]] = {}
    for of_infra in (False, True):
        for key in dict.fromkeys(
            k for observation in observations for k in sorted(observation.infra if of_infra else observation.failed)
        ):
            failed, passed = table.judged(key, of_infra)
            before, known = merged.get((failed, of_infra), (passed, []))
            merged[failed, of_infra] = (before & passed, [*known, key])
    explanations = [
        table.explain(
            failed, passed, keys, max((flakes or {}).get(title, FLAKE) for title, _ in keys), of_infra=of_infra
        )
        for (failed, of_infra), (passed, keys) in merged.items()
    ]
    return tuple(sorted(explanations, key=lambda explanation: (-len(explanation.cells), explanation.keys)))


class _Table:
    """The observations as bits: which cells have a value, which failed in what, which passed it."""

    def __init__(
        self, observations: Sequence[Observation], together: Sequence[frozenset[str]], goal: Goal | None
    ) -> None:
        self.observations = observations
        self.goal = goal
        self.book = Rulebook.of(goal.rules) if goal is not None else None
        self._implied: dict[tuple[tuple[Value, ...], Value], bool] = {}
        self.together = together
        self.having: dict[Value, int] = {}
        self.around: set[Value] = set()
        self._failed: dict[tuple[Key, bool], int] = {}
        self._passed: dict[str, int] = {}
        self._pairs: dict[tuple[Value, ...], int] = {}
        for number, observation in enumerate(observations):
            self.around.update(observation.around)
            for value in (*observation.values.items(), *observation.around):
                self.having[value] = self.having.get(value, 0) | 1 << number
            for key in (*((k, False) for k in observation.failed), *((k, True) for k in observation.infra)):
                self._failed[key] = self._failed.get(key, 0) | 1 << number
            for title in observation.passed:
                self._passed[title] = self._passed.get(title, 0) | 1 << number
        sizes: dict[str, int] = {}
        for axis, _ in self.having.keys() - self.around:
            sizes[axis] = sizes.get(axis, 0) + 1
        self.varied = {axis for axis, size in sizes.items() if size > 1}
        self._priors = self._prior_by_kind()

    def judged(self, key: Key, of_infra: bool) -> tuple[int, int]:
        """Return the cells that failed so, and those in which the same passed."""
        failed = self._failed[key, of_infra]
        return failed, self._passed.get(key[0], 0) & ~failed

    def explain(self, failed: int, passed: int, keys: Sequence[Key], flake: float, *, of_infra: bool) -> Explained:
        """Return what may explain that some cells failed and others passed."""
        rate = min(MOST_FLAKE, max(LEAST_FLAKE, flake))
        totals = failed.bit_count(), passed.bit_count()
        chance = math.log(CHANCE) + totals[0] * math.log(rate) + totals[1] * math.log(1 - rate)
        likely: dict[tuple[Value, ...], float] = {}
        for values, cells in self._suspected(failed, passed, of_infra=of_infra):
            hit, cleared = (cells & failed).bit_count(), (cells & passed).bit_count()
            likely[values] = (
                self._prior(values)
                + hit * math.log(1 - MISSED)
                + cleared * math.log(MISSED)
                + (totals[0] - hit) * math.log(rate)
                + (totals[1] - cleared) * math.log(1 - rate)
            )
        top = max([chance, *likely.values()])
        weight = math.exp(chance - top) + sum(math.exp(weight_of_values - top) for weight_of_values in likely.values())
        shares = self._merged(
            {values: math.exp(weight_of_values - top) / weight for values, weight_of_values in likely.items()}
        )
        best = sorted(shares, key=lambda values: (-shares[values], len(values), values))
        suspects = [self._suspect(values, shares[values], failed, passed) for values in best]
        return Explained(
            tuple(sorted(keys)),
            tuple(observation.cell for number, observation in enumerate(self.observations) if failed >> number & 1),
            tuple(suspect for suspect in suspects if suspect.share >= WORTH),
            math.exp(chance - top) / weight,
            totals[1],
        )

    def _suspected(self, failed: int, passed: int, *, of_infra: bool) -> Iterator[tuple[tuple[Value, ...], int]]:
        """Yield the combinations that some failing cell has, each with the cells that have it.

        Those with which more cells passed than failed are left out.
        """
        names: dict[tuple[Value, ...], int] = {}
        for number, observation in enumerate(self.observations):
            if failed >> number & 1:
                own = [] if of_infra else [value for value in observation.values.items() if value[0] in self.varied]
                for size in BY_SIZE:
                    names.update(dict.fromkeys(combinations(own, size), 0))
                names.update(dict.fromkeys(((value,) for value in sorted(observation.around)), 0))
        for values in names:
            cells = self._cells(values)
            if (cells & passed).bit_count() <= (cells & failed).bit_count():
                yield values, cells

    def _merged(self, shares: Mapping[tuple[Value, ...], float]) -> dict[tuple[Value, ...], float]:
        """Return the shares with those added up of combinations that every possible cell has all or none of."""
        merged: dict[tuple[Value, ...], float] = {}
        for values in sorted(shares, key=lambda combination: (len(combination), combination)):
            equal = (
                combination
                for combination in merged
                if shares[values] >= WORTH / 10
                and self._cells(combination) == self._cells(values)
                and self._implies(combination, values)
                and self._implies(values, combination)
            )
            same = next(equal, values)
            merged[same] = merged.get(same, 0.0) + shares[values]
        return merged

    def _implies(self, some: tuple[Value, ...], others: tuple[Value, ...]) -> bool:
        """Tell whether every possible cell with some values has the others."""
        return all(value in some or self._leads_to(some, value) for value in others)

    def _leads_to(self, some: tuple[Value, ...], value: Value) -> bool:
        if self.goal is None or self.book is None:
            return False
        if (some, value) not in self._implied:
            chosen = {axis: (v,) for axis, v in some}
            domains = {axis: chosen.get(axis, known) for axis, known in self.goal.values.items()}
            rest = tuple(known for known in domains.get(value[0], ()) if known != value[1])
            without = {**domains, value[0]: rest}
            self._implied[some, value] = value[0] in domains and self.book.solve(without) is None
        return self._implied[some, value]

    def _cells(self, values: tuple[Value, ...]) -> int:
        if len(values) == 1:
            return self.having[values[0]]
        if values not in self._pairs:
            self._pairs[values] = self._cells(values[:-1]) & self.having[values[-1]]
        return self._pairs[values]

    def _prior_by_kind(self) -> dict[int | tuple[int, str], float]:
        """Return what one combination is worth, by its size: a share is spread over those that some cell has."""
        rows = [[v for v in observation.values.items() if v[0] in self.varied] for observation in self.observations]
        groups = [[[v for v in row if v[0] in axes] for row in rows] for axes in self.together]
        priors: dict[int | tuple[int, str], float] = {}
        for size, share in BY_SIZE.items():
            priors[size] = math.log(share / max(1, len({c for row in rows for c in combinations(row, size)})))
        for size, share in TOGETHER.items():
            number = len({c for group in groups for row in group for c in combinations(row, size)})
            priors[size, "together"] = math.log(share / max(1, number))
        priors[1, "around"] = math.log(AROUND / max(1, len(self.around)))
        return priors

    def _prior(self, values: tuple[Value, ...]) -> float:
        if values[0] in self.around:
            return self._priors[1, "around"]
        axes, size = {axis for axis, _ in values}, len(values)
        if size in TOGETHER and any(axes <= group for group in self.together):
            return self._priors[size, "together"]
        return self._priors[size]

    def _suspect(self, values: tuple[Value, ...], share: float, failed: int, passed: int) -> Suspect:
        cells = self._cells(values)
        hit, judged = (cells & failed).bit_count(), (cells & (failed | passed)).bit_count()
        others = (failed | passed).bit_count() - judged
        return Suspect(values, share, hit, judged, failed.bit_count() - hit, others, around=values[0] in self.around)


def of_run(result: RunResult) -> list[Observation]:
    """Return what the cells of a run say. What is in quarantine, cut off or not judged says nothing."""
    return [_of_cell(cell, result.values.get(cell.id, {})) for cell in result.cells if cell.attempts]


def _of_cell(cell: CellResult, values: Mapping[str, str]) -> Observation:
    failed = [(_key(failure), failure.blame) for failure in cell.failed_of(cell.last_attempt) if not failure.quarantine]
    passed = {check.title for check in cell.last_checks if check.outcome == Outcome.PASSED}
    passed |= {step.name for step in cell.steps_of(cell.last_attempt) if step.outcome == Outcome.PASSED}
    passed -= {check.title for check in cell.failed_checks}
    return _observation(cell.id, values, failed, passed, cell.around)


def _key(failure: Step | CheckResult) -> Key:
    return (
        (failure.title, failure.signature)
        if isinstance(failure, CheckResult)
        else (failure.name, signature_of_text(failure.summary))
    )


def of_night(night: Night) -> list[Observation]:
    """Return what the cells of a night say."""
    return [_of_record(record) for record in night.cells.values()]


def _of_record(record: Record) -> Observation:
    failed = [(failure.key, failure.blame) for failure in failures_of(record) if not failure.quarantine]
    letters: dict[str, set[str]] = {}
    for row in record.checks.rows:
        if row.attempt == record.last_attempt:
            for title, letter in zip(record.checks.names, row.results, strict=True):
                letters.setdefault(title, set()).add(letter)
    passed = {title for title, results in letters.items() if "p" in results and not results & set(BAD)}
    passed |= {s.name for s in record.steps if s.attempt == record.last_attempt and s.outcome == Outcome.PASSED}
    around = {**record.around, "hour (UTC)": f"{record.start:%H}"}
    around |= {"runner": record.where.runner} if record.where.runner else {}
    return _observation(record.cell, record.axes, failed, passed, around)


def _observation(
    cell: str, values: Mapping[str, str], failed: Iterable[tuple[Key, str]], passed: set[str], around: Mapping[str, str]
) -> Observation:
    by_infra = {key: blame == INFRA for key, blame in failed}
    return Observation(
        cell,
        values,
        frozenset(key for key, infra in by_infra.items() if not infra),
        frozenset(passed),
        frozenset(around.items()),
        frozenset(key for key, infra in by_infra.items() if infra),
    )


def flake_rates(nights: Sequence[Night]) -> dict[str, float]:
    """Return at which rate each check that ever failed failed by chance, by its title.

    A failure that one cell of a night had alone counts as such; the rate of what is seldom judged is near the usual.
    """
    alone: dict[str, int] = {}
    judged: dict[str, int] = {}
    for night in nights:
        failed: dict[str, int] = {}
        for observation in of_night(night):
            for title in {*observation.passed, *(title for title, _ in observation.failed)}:
                judged[title] = judged.get(title, 0) + 1
            for title in {title for title, _ in observation.failed}:
                failed[title] = failed.get(title, 0) + 1
        for title, number in failed.items():
            alone[title] = alone.get(title, 0) + (number == 1)
    return {title: (number + FLAKE * USUAL) / (judged[title] + USUAL) for title, number in alone.items()}


def since(records: Iterable[Record], values: Iterable[Value], titles: Collection[str]) -> tuple[Record, Record] | None:
    """Return the last record with some values in which a check or step passed, and the first in which it failed since.

    Nothing where it does not fail, or never passed before. Cells differ from night to night: their values line up.

    Args:
        records: the history, oldest first.
    """
    good: Record | None = None
    bad: Record | None = None
    for record in records:
        if not set(values) <= record.axes.items():
            continue
        observation = _of_record(record)
        if any(title in titles for title, _ in observation.failed):
            bad = bad or record
        elif not observation.passed.isdisjoint(titles):
            good, bad = record, None
    return (good, bad) if good is not None and bad is not None else None


def worth_showing(explanations: Sequence[Explained]) -> list[Explained]:
    """Return the failures of which something can be said: some cell passed what failed in others."""
    telling = (
        explanation
        for explanation in explanations
        if explanation.by_chance or any(map(_compared, explanation.suspects))
    )
    return [*islice(telling, MOST_EXPLAINED)]


def _compared(suspect: Suspect) -> bool:
    return suspect.others > suspect.others_failed or suspect.judged > suspect.failed


def lines_of(explanation: Explained) -> list[str]:
    """Return a line for the suspect that is named, else for the likeliest ones; and what failed with them."""
    what = ", ".join(title for title, _ in explanation.keys[:SHOWN])
    what += f" and {len(explanation.keys) - SHOWN} more" if len(explanation.keys) > SHOWN else ""
    if explanation.named is not None:
        where = "not the matrix, but where or when cells ran: " if explanation.named.around else ""
        suspect = explanation.named
        return [f"{where}{suspect.said} ({_percent(suspect.share)}): {suspect.evidence}: {what}"]
    if explanation.by_chance:
        number = len(explanation.cells)
        evidence = f"{number} of {number + explanation.passed} cells failed"
        return [f"most likely by chance ({_percent(explanation.chance)}): {evidence}: {what}"]
    few = [
        f"{suspect.said} ({_percent(suspect.share)}; {suspect.evidence})" for suspect in explanation.suspects[:SHOWN]
    ]
    more = f", or one of {len(explanation.suspects) - SHOWN} others" if len(explanation.suspects) > SHOWN else ""
    return [f"{', or '.join(few)}{more}, or chance ({_percent(explanation.chance)}): {what}"]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"

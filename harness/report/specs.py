"""What upstream's specs came to: counted for each cell, and compared between cells that differ in a value."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.spec.suites import UPSTREAM
from harness.validate.conformance.upstream_run import NOT_RUN, OWN_WORDS

PASSED, FAILED, SKIPPED, NOT_STARTED = "passed", "failed", "skipped by the spec itself", "not run"
SPEC_ITEM = "test_spec["
AXES = ("kubernetes", "network")  # of which a spec's failure is most often a matter


@dataclass(frozen=True)
class SpecItem:
    """One spec in one cell. outcome: passed, failed, or not-run, as a check's; reason: why it did not run."""

    cell: str
    suite: str
    name: str
    outcome: str
    reason: str = ""

    @property
    def came_to(self) -> str:
        """Return the word under which it is counted."""
        if self.outcome in (PASSED, FAILED):
            return self.outcome
        return SKIPPED if self.reason.strip().startswith(OWN_WORDS) else NOT_STARTED


@dataclass(frozen=True)
class SpecCount:
    """The specs of one suite in one cell: how many came to what, and why some were not run, with how many each."""

    cell: str
    suite: str
    counts: Mapping[str, int]
    reasons: Mapping[str, int]


@dataclass(frozen=True)
class SpecDifference:
    """A spec that fails with some values of an axis and with none of those with which it passes."""

    suite: str
    name: str
    axis: str
    fails: tuple[str, ...]
    passes: tuple[str, ...]

    @property
    def told(self) -> str:
        """Return it as a sentence."""
        return f"{self.name} fails on {self.axis} {', '.join(self.fails)}, and passes on {', '.join(self.passes)}"


def spec_name(suite: str, item: str) -> str | None:
    """Return the spec that an item of a suite is about, by the item's name; None where it is about none."""
    return item.removeprefix(SPEC_ITEM).removesuffix("]") if suite in UPSTREAM and item.startswith(SPEC_ITEM) else None


def counted(items: Iterable[SpecItem]) -> tuple[SpecCount, ...]:
    """Count specs by cell and suite, in the order in which these come."""
    found: dict[tuple[str, str], list[SpecItem]] = defaultdict(list)
    for item in items:
        found[item.cell, item.suite].append(item)
    return tuple(
        SpecCount(
            cell,
            suite,
            Counter(item.came_to for item in specs),
            Counter(item.reason.strip().removeprefix(NOT_RUN) for item in specs if item.came_to == NOT_STARTED),
        )
        for (cell, suite), specs in found.items()
    )


def differences(items: Iterable[SpecItem], axes: Mapping[str, Mapping[str, str]]) -> tuple[SpecDifference, ...]:
    """Return the specs whose failure goes with a Kubernetes version or a network plugin.

    Args:
        axes: the values of each cell.
    """
    seen: dict[tuple[str, str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for item in items:
        for axis in AXES:
            value = axes.get(item.cell, {}).get(axis)
            if value is not None and item.came_to in (PASSED, FAILED):
                seen[item.suite, item.name, axis][value].add(item.came_to)
    found = []
    for (suite, name, axis), values in seen.items():
        fails = tuple(sorted(value for value, came in values.items() if came == {FAILED}))
        passes = tuple(sorted(value for value, came in values.items() if came == {PASSED}))
        if fails and passes:
            found.append(SpecDifference(suite, name, axis, fails, passes))
    return tuple(found)


def table(counts: Iterable[SpecCount]) -> list[str]:
    """Return a Markdown table of the counts, and a line for each reason for which specs were not run."""
    words = (PASSED, FAILED, SKIPPED, NOT_STARTED)
    every = tuple(counts)
    rows = [
        f"| `{one.cell}` | {one.suite} | {' | '.join(str(one.counts.get(word, 0)) for word in words)} |"
        for one in every
    ]
    lines = [f"| cell | specs | {' | '.join(words)} |", f"|---|---|{'--:|' * len(words)}", *rows, ""] if rows else []
    reasons: Counter[str] = Counter()
    for one in every:
        reasons.update(one.reasons)
    said = [f"- not run, {number}: {reason}" for reason, number in reasons.most_common()]
    return [*lines, *said, ""] if said else lines

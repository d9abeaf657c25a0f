"""A check's result as data: its outcome and its findings, from the judge through results.jsonl to every report.

Reports, signatures and exit codes are views of it. Text that somebody else wrote (pytest's traceback of an error that
is not a finding) is kept as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from harness.model import Outcome
from harness.sanitize import sanitized

MEASURED = "measured"  # a check's property that every report shows, whatever the outcome: one line
MOST_FINDINGS = 500  # of one check that are written down: a thousand say no more
SHORTEST_NAME = 3  # letters before a hyphen that are a name; "cp" and "w" are machines of a cell
MOST_LISTED = 40  # of one check that a text lists
SHORTEST_TEXT = 40  # characters of which both ends say something
REMEMBERED = 320  # characters of the line that is left of an old failure, by which it is known again
LINE = 1000  # characters of the line that says what went wrong, wherever one line stands for a failure
FORMER_REASONS = {"not judged: ": "not-judged", "left out: ": "left-out", "not run: ": "not-run"}


class FindingKind(StrEnum):
    """What a finding says of what it is about."""

    WRONG = "wrong"  # it is not as expected
    NOT_JUDGED = "not-judged"  # nothing of it could be judged in this cluster
    LEFT_OUT = "left-out"  # the product leaves it out
    NOT_RUN = "not-run"  # the check did not begin, or could not
    WAIVED = "waived"  # it is against a control that the project waives


@dataclass(frozen=True)
class Finding:
    """One thing that a check states.

    where: machine, object or file; "" for the check as a whole.
    expected: what must be true; of another kind than wrong, what is not judged.
    observed: what was there instead; of another kind than wrong, the reason.
    controls: numbers of the CIS benchmark's controls that it is about.
    """

    where: str
    expected: str
    observed: str
    kind: FindingKind = FindingKind.WRONG
    controls: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return one line."""
        if self.kind is FindingKind.WRONG:
            numbers = f"CIS {', '.join(self.controls)}: " if self.controls else ""
            return f"{numbers}{self.where}: expected {self.expected}; saw {self.observed}"
        reason = f"waived: {self.observed}" if self.kind is FindingKind.WAIVED else self.observed
        return ": ".join(part for part in (self.where, self.expected, reason) if part)

    @property
    def seen(self) -> str:
        """Return what was observed, as own checks call it."""
        return self.observed

    def fields(self) -> dict[str, Any]:
        """Return it as results.jsonl has it; what is empty is left out."""
        texts = {"where": self.where, "expected": self.expected, "observed": self.observed}
        more: dict[str, Any] = {"controls": list(self.controls)} if self.controls else {}
        return {"kind": self.kind.value, **{name: text for name, text in texts.items() if text}, **more}

    @staticmethod
    def of(fields: Mapping[str, Any]) -> Finding:
        """Return the finding of such fields. Raises ValueError, KeyError or TypeError when they are not of one."""
        where, expected, observed = (str(fields.get(name, "")) for name in ("where", "expected", "observed"))
        controls = tuple(str(number) for number in fields.get("controls", ()))
        return Finding(where, expected, observed, FindingKind(fields["kind"]), controls)


def because(kind: FindingKind, reason: str) -> Finding:
    """Return why a check as a whole was not run, not judged or left out."""
    return Finding("", "", reason, kind)


def signature_of_text(text: str) -> str:
    """Return a line without what differs from run to run: paths, and words with a digit in them.

    Of such a word only a name before its first hyphen stays, as of a pod ("coredns-7d4b9c8f6d-x2x9k").
    """
    words = [_without_values(word) for word in sanitized(text).split()]
    return " ".join(word for number, word in enumerate(words) if word != "*" or words[number - 1 : number] != ["*"])


def _without_values(word: str) -> str:
    if word.lstrip("'\"([").startswith("/"):
        return "*"
    if not any(character.isdigit() for character in word):
        return word
    name = word.partition("-")[0]
    return f"{name}-*" if len(name) >= SHORTEST_NAME and name.isalpha() else "*"


def failure_text(wrong: Sequence[Finding], claim: str, look: str, command: str, *, most: int = MOST_LISTED) -> str:
    """Return what a failed check says to people: the claim, what is wrong, where to look, what to type."""
    lines = [f"not true: {claim}"] if claim else []
    lines += [f"  - {finding}" for finding in wrong[:most]]
    lines += [f"  and {len(wrong) - most} more"] if len(wrong) > most else []
    lines += [f"look at: {look}"] if look else []
    return "\n".join([*lines, *([f"type:    {command}"] if command else [])])


@dataclass(frozen=True)
class CheckResult:
    """One check of a cell that has ended: passed, failed or not-run.

    stage: the phase after which it ran.
    findings: what it states; with a failure, what is wrong.
    claim, look, command: what should be true, where a cause is likely seen, what to type next.
    error: what an error that is not a finding says, in one line; text: the same as pytest shows it.
    infra: what happened to the infra cluster meanwhile that explains a failure.
    properties: what it noted: figures, and in `measured` a line that every report shows.
    quarantine: the issue of the entry that keeps a failure from counting.
    """

    name: str
    suite: str
    outcome: Outcome
    seconds: float
    stage: str = ""
    attempt: int = 1
    blame: str = ""
    findings: tuple[Finding, ...] = ()
    claim: str = ""
    look: str = ""
    command: str = ""
    error: str = ""
    text: str = ""
    infra: str = ""
    properties: Mapping[str, Any] = field(default_factory=dict)
    quarantine: str = ""

    @property
    def title(self) -> str:
        """Return suite and name, as quarantine entries name checks."""
        return f"{self.suite}: {self.name}"

    @property
    def measured(self) -> str:
        """Return what it measured and every report shows, in words."""
        return str(self.properties.get(MEASURED, ""))

    @property
    def wrong(self) -> tuple[Finding, ...]:
        """Return what failed it: what is wrong; where all has to be judged, what is not."""
        wrong = tuple(f for f in self.findings if f.kind is FindingKind.WRONG)
        return wrong or (self.findings if self.outcome is Outcome.FAILED and self.claim else ())

    @property
    def parts(self) -> tuple[Finding, ...]:
        """Return what of it was not judged although it passed or failed."""
        whole = self.outcome is Outcome.NOT_RUN or any(f.kind is not FindingKind.WRONG for f in self.wrong)
        return () if whole else tuple(f for f in self.findings if f.kind is not FindingKind.WRONG)

    @property
    def kind(self) -> FindingKind | None:
        """Return why it did not run; None where it passed or failed."""
        if self.outcome is not Outcome.NOT_RUN:
            return None
        kinds = {FindingKind.NOT_JUDGED if f.kind is FindingKind.WAIVED else f.kind for f in self.findings}
        return kinds.pop() if len(kinds) == 1 else FindingKind.NOT_RUN

    @property
    def reason(self) -> str:
        """Return why it did not run."""
        return "; ".join(map(str, self.findings))

    @property
    def headline(self) -> str:
        """Return the cause of a failure in one line, whole: the first thing that is wrong, and how many more are."""
        if self.infra:
            return self.infra
        if not self.wrong:
            return self.error or telling(self.text, (self.title,), most=None)
        more = f"; and {len(self.wrong) - 1} more" if len(self.wrong) > 1 else ""
        return f"{self.wrong[0]}{more}"

    @property
    def detail(self) -> str:
        """Return a failure's text, or why the check did not run, for people."""
        if self.outcome is Outcome.NOT_RUN:
            lead = f"{self.kind.value.replace('-', ' ')}: " if self.kind is not None else ""
            return f"{lead}{self.reason}"
        return "\n".join(part for part in (self.infra, self._body()) if part)

    def _body(self) -> str:
        return failure_text(self.wrong, self.claim, self.look, self.command) if self.wrong else self.text

    @property
    def cause(self) -> tuple[str, ...]:
        """Return what failures of one cause share within a run, whatever their checks claim."""
        if self.infra or not self.wrong:
            return self.blame, self.quarantine, signature_of_text(self.headline)
        return self.blame, self.quarantine, *sorted({f"{f.where}: {f.expected}: {f.observed}" for f in self.wrong})

    @property
    def signature(self) -> str:
        """Return what equal failures of several runs and cells share: what should be true and what was expected.

        Places and what was seen differ from machine to machine and from run to run, and do not count.
        """
        if self.infra or not self.wrong:
            return signature_of_text(shortened(self.headline, REMEMBERED))
        return "; ".join([self.claim, *sorted({signature_of_text(finding.expected) for finding in self.wrong})])

    def event(self) -> dict[str, Any]:
        """Return its fields in results.jsonl, without the cell; what is empty is left out.

        `detail` and the property `not_judged` are for readers of text; vmatrix reads the findings.
        """
        parts = {"not_judged": [str(finding) for finding in self.parts]} if self.parts else {}
        texts = {
            "blame": self.blame,
            "detail": self.detail if self.outcome is not Outcome.PASSED else "",
            "findings": [finding.fields() for finding in self.findings[:MOST_FINDINGS]],
            "claim": self.claim,
            "look": self.look,
            "command": self.command,
            "error": self.error,
            "infra": self.infra,
            "properties": {**self.properties, **parts},
        }
        return {
            "attempt": self.attempt,
            "stage": self.stage,
            "name": self.name,
            "suite": self.suite,
            "outcome": self.outcome.value,
            "seconds": round(self.seconds, 3),
            **{name: value for name, value in texts.items() if value},
        }

    @staticmethod
    def of(event: Mapping[str, Any]) -> CheckResult:
        """Return the result of an event, also of one that was written before findings were data."""
        properties = dict(event.get("properties", {}))
        parts = [str(line) for line in properties.pop("not_judged", ())]
        outcome, detail, infra = Outcome(event["outcome"]), str(event.get("detail", "")), str(event.get("infra", ""))
        if "findings" in event:
            findings = tuple(map(Finding.of, event["findings"]))
        else:
            findings = tuple(because(FindingKind.NOT_JUDGED, line) for line in parts)
            findings += (_former_reason(detail),) if outcome is Outcome.NOT_RUN else ()
        made = CheckResult(
            name=event["name"],
            suite=event["suite"],
            outcome=outcome,
            seconds=float(event["seconds"]),
            stage=event.get("stage", ""),
            attempt=int(event.get("attempt", 1)),
            blame=event.get("blame", ""),
            findings=findings,
            claim=event.get("claim", ""),
            look=event.get("look", ""),
            command=event.get("command", ""),
            error=event.get("error", ""),
            infra=infra,
            properties=properties,
        )
        is_text = outcome is Outcome.FAILED and not made.wrong
        return replace(made, text=detail.removeprefix(f"{infra}\n")) if is_text else made


def _former_reason(detail: str) -> Finding:
    """Return why a check did not run, of the text that alone said so before findings were data."""
    text = detail.strip()
    lead = next((lead for lead in FORMER_REASONS if text.startswith(lead)), "")
    return because(FindingKind(FORMER_REASONS.get(lead, "not-run")), text.removeprefix(lead))


def causes(checks: Iterable[CheckResult]) -> list[tuple[CheckResult, tuple[CheckResult, ...]]]:
    """Group failed checks by their cause: the first of each, and the others."""
    groups: dict[tuple[str, ...], list[CheckResult]] = {}
    for check in checks:
        groups.setdefault(check.cause, []).append(check)
    return [(first, tuple(others)) for first, *others in groups.values()]


def shortened(text: str, most: int) -> str:
    """Return a text in at most so many characters: of a longer one a quarter from its beginning and its whole end.

    The end of a message says what went wrong; its beginning says in what.
    """
    if len(text) <= most:
        return text
    between = "\n[...]\n" if "\n" in text else " [...] "
    first = max(0, (most - len(between)) // 4)
    return f"{text[:first]}{between}{text[len(text) - (most - len(between) - first) :]}"


def shortened_below(headline: str, text: str, most: int) -> str:
    """Return a text below the line that says what went wrong: that line whole, and what room there is for the rest."""
    first, _, rest = text.strip().partition("\n")
    if headline not in ("", first):
        first, rest = headline, f"\n{text.strip()}"
    first = shortened(first, LINE if rest else max(LINE, most))
    room = most - len(first) - 1
    return f"{first}\n{shortened(rest, room)}" if rest and room >= SHORTEST_TEXT else first


def telling(text: str, titles: tuple[str, ...] = (), *, most: int | None = LINE) -> str:
    """Return the line of a text that says what went wrong: pytest marks it with an E, any other text begins with it.

    Args:
        titles: of the checks that the text is of; a line that only repeats the name of one says nothing.
        most: characters, from which on the line is shortened; None leaves it whole.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    names = {name for title in titles for name in (title, title.partition(": ")[2])}
    marked = [line[2:].strip() for line in lines if line.startswith("E ")]
    telling_lines = [line for line in (*marked, *lines) if line and line not in names]
    line = next(iter(telling_lines), lines[0] if lines else "")
    return line if most is None else shortened(line, most)

"""Every message of the code that says what to do, by who is to blame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import harness
from ci.site.constants import ANYTHING
from ci.site.hints import Advice, advice
from ci.site.tables import table

FOLDER = Path(harness.__file__).parent
FINDING = "Finding"
OPERATOR = "operator"
TITLES = {
    "user": "What was given cannot be used",
    FINDING: "Something is missing on the host or in the infra cluster",
    "infra": "The infrastructure failed",
    "product": "The product failed",
    OPERATOR: "The operator refuses or reports something",
    "harness": "vmatrix contradicts itself",
    "": "Other",
}


def text(places: Sequence[Advice] = ()) -> str:
    """Return a table of messages and hints for each blame, in the order of their first words.

    Args:
        places: those of the code, where they are known already.
    """
    found = [one for one in places or advice(FOLDER) if not one.passed_on]
    return "\n\n".join(
        f"### {title}\n\n{table(('message', 'what to do'), rows)}"
        for blame, title in TITLES.items()
        if (rows := sorted(set(_rows(one for one in found if _group(one) == blame)), key=_words))
    )


def _group(one: Advice) -> str:
    if one.path.is_relative_to(FOLDER / OPERATOR):
        return OPERATOR
    return FINDING if one.error == FINDING else one.blame


def _rows(found: Iterator[Advice]) -> Iterator[tuple[str, str]]:
    for one in found:
        said = " / ".join(text for text in one.summaries if text.strip(f" {ANYTHING};,:.")) or ANYTHING
        yield from ((said, hint) for hint in one.hints)


def _words(row: tuple[str, str]) -> tuple[str, str]:
    return row[0].lower().strip(f" {ANYTHING}`'\".:"), row[1]

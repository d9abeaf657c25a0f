"""Samples of a few metrics out of the many that a program exposes as text.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format. An API server exposes tens of thousands
of lines, of which a general reader would parse all: lines of other metrics are passed over unread here.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

LINE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+-?\d+)?$")
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"\s*(?:,|$)\s*')
ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True)
class Sample:
    """One sample: its metric's name, its labels, its value."""

    name: str
    labels: dict[str, str]
    value: float


def samples(text: str, names: Collection[str]) -> list[Sample]:
    """Return the samples with these names.

    Raises:
        ValueError: a line with such a name is malformed.
    """
    wanted = tuple(names)
    return [_sample(line) for line in text.splitlines() if line.startswith(wanted) and _name(line) in wanted]


def _name(line: str) -> str:
    return re.split(r"[{\s]", line, maxsplit=1)[0]


def _sample(line: str) -> Sample:
    found = LINE.match(line.rstrip())
    if found is None:
        raise ValueError(f"not a sample: {line[:200]!r}")
    text, labels, at = found["labels"] or "", {}, 0
    while at < len(text):
        pair = LABEL.match(text, at)
        if pair is None:
            raise ValueError(f"not labels: {line[:200]!r}")
        labels[pair[1]] = ESCAPED.sub(lambda one: "\n" if one[1] == "n" else one[1], pair[2])
        at = pair.end()
    return Sample(found["name"], labels, float(found["value"]))

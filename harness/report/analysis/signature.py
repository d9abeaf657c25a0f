"""What equal failures have in common: a message without what differs from run to run.

Ids, numbers, addresses, times, paths and versions are replaced by a mark, so that the same failure of two cells reads
the same.
"""

from __future__ import annotations

import re
from functools import lru_cache

from harness.history.record import telling

MARKS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\x1b\[[0-9;]*[A-Za-z]"), ""),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b(?:sha256:)?[0-9a-f]{32,128}\b"), "<id>"),
    (re.compile(r"\bk\d{3,5}-[a-z0-9-]*-[0-9a-f]{6}\b"), "<cell>"),
    (re.compile(r"(?:[0-9a-fA-F]{1,4}:){3,7}[0-9a-fA-F]{1,4}\b|::[0-9a-fA-F]{1,4}\b"), "<address>"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?:/\d+)?\b"), "<address>"),
    (re.compile(r"(?<![\w.<])/(?:[\w.@+-]+/)*[\w.@+-]+"), "<path>"),
    (re.compile(r"\b(?:cp|w|worker|etcd|lb|node|control-plane)-\d+\b"), "<machine>"),
    (re.compile(r"(?<=[a-z0-9])-(?=[a-z0-9]*\d)[bcdfghjklmnpqrstvwxz2456789]{8,10}(?:-[a-z0-9]{5})?\b"), "-<id>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b|\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{6,31}\b"), "<id>"),
    (re.compile(r"\d+(?:\.\d+)*"), "<n>"),
    (re.compile(r"\s+"), " "),
)


@lru_cache(maxsize=50_000)
def signature(message: str, titles: tuple[str, ...] = ()) -> str:
    """Return a message's telling line without what differs from run to run; empty for an empty message."""
    line = telling(message, titles)
    for pattern, mark in MARKS:
        line = pattern.sub(mark, line)
    return line.strip()

"""Two sets of variables as one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return two sets of variables as one: the second wins, but where both have a mapping, these are merged."""
    both = dict(below)
    for name, value in above.items():
        there = both.get(name)
        both[name] = merged(there, value) if isinstance(there, Mapping) and isinstance(value, Mapping) else value
    return both

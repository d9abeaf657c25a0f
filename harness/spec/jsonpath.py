"""The paths to one value that `kubectl get -o jsonpath` and kubebuilder's columns know: {.status.history[0].blame}."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

PART = re.compile(r"\.(?P<key>[A-Za-z0-9_-]+)|\['(?P<quoted>[^']+)'\]|\[(?P<number>-?[0-9]+)\]")


def steps(path: str) -> tuple[str | int, ...]:
    """Return the keys and positions on the way of a path.

    Raises:
        ValueError: it is no path to one value.
    """
    inner = path[1:-1] if path.startswith("{") and path.endswith("}") else path
    found, at = list[str | int](), 0
    while at < len(inner):
        part = PART.match(inner, at)
        if part is None:
            break
        found.append(int(part["number"]) if part["number"] is not None else part["key"] or part["quoted"])
        at = part.end()
    if not found or at < len(inner):
        raise ValueError(f"{path!r} is no path such as {{.status.history[0]}}")
    return tuple(found)


def value_at(content: Any, path: str) -> Any:
    """Return the value at the end of a path, None where there is none."""
    for step in steps(path):
        if isinstance(step, str):
            content = content.get(step) if isinstance(content, Mapping) else None
        else:
            there = isinstance(content, list) and -len(content) <= step < len(content)
            content = content[step] if there else None
    return content

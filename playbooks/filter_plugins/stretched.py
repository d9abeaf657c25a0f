"""Jinja filters of time-outs. `stretched`: times a factor, so that one variable reaches every wait. `in_seconds`.

Covers seconds, durations as Go writes them (`1m30s`) and mappings of them. Whole seconds come out, rounded up, so a
small factor never makes a wait of none. With factor 1 a value stays as it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:h|ms|m|s))+")
PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")


def stretched(given: Any, factor: Any) -> Any:
    """Return seconds as a whole number, a duration as `Ns`, a mapping with each of its values stretched.

    Raises:
        AnsibleFilterError: the value is no time-out, or the factor is no number above 0.
    """
    times = _number(factor)
    if isinstance(given, dict):
        return {name: stretched(value, factor) for name, value in given.items()}
    text = str(given)
    seconds = _seconds(text)
    if DURATION.fullmatch(text):
        return text if times == 1 else f"{_whole(seconds * times)}s"
    return _whole(seconds * times)


def in_seconds(given: Any) -> int:
    """Return the whole seconds of a time-out, rounded up. Raises AnsibleFilterError where it is none."""
    return _whole(_seconds(str(given)))


def _seconds(text: str) -> float:
    if DURATION.fullmatch(text):
        return sum(float(number) * UNITS[unit] for number, unit in PART.findall(text))
    try:
        return float(text)
    except ValueError as error:
        raise AnsibleFilterError(f"{text!r} is neither seconds nor a duration such as 1m30s") from error


def _number(factor: Any) -> float:
    try:
        times = float(factor)
    except (TypeError, ValueError):
        times = 0.0
    if not 0 < times < math.inf:
        raise AnsibleFilterError(f"cluster_timeout_scale is {factor!r}: set it to a number above 0")
    return times


def _whole(seconds: float) -> int:
    return math.ceil(round(seconds, 6))  # 10 * 1.1 is a little more than 11


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"stretched": stretched, "in_seconds": in_seconds}

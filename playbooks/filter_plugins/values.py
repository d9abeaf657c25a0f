"""Jinja filters of values: `stretched` and `in_seconds` of time-outs, `in_url` of addresses.

A time-out may be a duration of Go (`1m30s`). Whole seconds come out, rounded up; with factor 1 it stays as it is.
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
    """Return seconds as a whole number, a duration as `Ns`, a mapping with each of its values stretched."""
    times = float(factor) if re.fullmatch(r"\d*\.?\d+", str(factor)) else 0.0
    if times <= 0:
        raise AnsibleFilterError(f"cluster_timeout_scale is {factor!r}: set it to a number above 0")
    if isinstance(given, dict):
        return {name: stretched(value, factor) for name, value in given.items()}
    if not DURATION.fullmatch(str(given)):
        return in_seconds(given, times)
    return str(given) if times == 1 else f"{in_seconds(given, times)}s"


def in_seconds(given: Any, times: float = 1.0) -> int:
    """Return the whole seconds of a time-out, rounded up."""
    text = f"{given}s" if re.fullmatch(r"\d+(\.\d+)?", str(given)) else str(given)
    if not DURATION.fullmatch(text):
        raise AnsibleFilterError(f"{text!r} is neither seconds nor a duration such as 1m30s")
    seconds = sum(float(number) * UNITS[unit] for number, unit in PART.findall(text))
    return math.ceil(round(seconds * times, 6))  # 10 * 1.1 is a little more than 11


def in_url(host: Any) -> str:
    """Return a host's name or address as it stands in front of a port: an IPv6 address in brackets (RFC 3986)."""
    text = str(host)
    return f"[{text}]" if ":" in text and not text.startswith("[") else text


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"stretched": stretched, "in_seconds": in_seconds, "in_url": in_url}

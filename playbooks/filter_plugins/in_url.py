"""Jinja filter `in_url`: an address as URLs and HOST:PORT have it, an IPv6 address in brackets (RFC 3986)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def in_url(host: Any) -> str:
    """Return a host's name or address as it stands in front of a port."""
    text = str(host)
    return f"[{text}]" if ":" in text and not text.startswith("[") else text


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"in_url": in_url}

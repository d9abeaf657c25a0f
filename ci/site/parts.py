"""The parts of pages that are made from the code, by name."""

from __future__ import annotations

from collections.abc import Callable

from ci.site import checks, commands, exit_codes, files, messages, settings

PARTS: dict[str, Callable[[], str]] = {
    "checks": checks.text,
    "commands": commands.text,
    "exit_codes": exit_codes.text,
    "files": files.text,
    "messages": messages.text,
    "settings": settings.text,
}


def part(name: str) -> str:
    """Return a part as Markdown."""
    return PARTS[name]()

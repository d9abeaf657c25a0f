"""Every setting: its key in vmatrix.yml, its variable, its option, its default."""

from __future__ import annotations

from typing import Any

from ci.site.tables import table
from harness.spec.options import RUN, SETTINGS, Option
from harness.spec.settings import PREFIX, Settings


def text() -> str:
    """Return a table of all settings, those of `vmatrix run` by the panels of its help first."""
    panels: dict[str, list[Option]] = {}
    for option in SETTINGS.values():
        panels.setdefault(option.panel or "Only in vmatrix.yml and the environment", []).append(option)
    return "\n\n".join(f"## {title}\n\n{_table(options)}" for title, options in panels.items())


def _table(options: list[Option]) -> str:
    return table(("key", "option of `vmatrix run`", "variable", "default", "meaning"), map(_row, options))


def _row(option: Option) -> tuple[str, ...]:
    flag = f"`{option.flag}`" if option.name in RUN else ""
    default = _default(Settings.model_fields[option.name].default)
    return f"`{option.name}`", flag, f"`{PREFIX}{option.name.upper()}`", default, _meaning(option)


def _default(value: Any) -> str:
    if value is None:
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _meaning(option: Option) -> str:
    choices = ", ".join(f"`{one}`" for one in option.choices)
    return f"{option.help} One of {choices}." if choices else option.help

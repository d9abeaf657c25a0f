"""Every command with its arguments and options, as `--help` has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from ci.site.tables import shown, table
from harness.cli import app


def text() -> str:
    """Return a section for each command."""
    return "\n\n".join(_sections("vmatrix", typer.main.get_command(app)))


def _sections(name: str, command: Any) -> Iterator[str]:
    below = getattr(command, "commands", {})
    shown_below = {word: one for word, one in below.items() if not one.hidden}
    yield _section(name, command, names=tuple(shown_below))
    for word, one in sorted(shown_below.items()):
        yield from _sections(f"{name} {word}", one)


def _section(name: str, command: Any, names: tuple[str, ...]) -> str:
    parts = [f"## {name}", *(shown(one) for one in (command.help or "").split("\n\n") if one.strip())]
    visible = [one for one in command.params if not getattr(one, "hidden", False) and one.name != "help"]
    arguments = [one for one in visible if one.param_type_name == "argument"]
    options = [one for one in visible if one.param_type_name == "option"]
    usage = " ".join([name, *(_word(one) for one in arguments), *(["[OPTIONS]"] if options else [])])
    parts.append(f"```\n{usage}{' COMMAND' if names else ''}\n```")
    if names:
        parts.append(
            "Commands: " + ", ".join(f"[{one}](#{f'{name} {one}'.replace(' ', '-')})" for one in sorted(names))
        )
    if arguments:
        parts.append(table(("argument", "meaning"), ((f"`{_word(one)}`", one.help or "") for one in arguments)))
    if options:
        parts.append(table(("option", "meaning"), ((_flags(one), one.help or "") for one in options)))
    return "\n\n".join(parts)


def _word(argument: Any) -> str:
    word = argument.metavar or argument.name.upper()
    return f"{word}{'...' if argument.nargs == -1 and not word.endswith('...') else ''}"


def _flags(option: Any) -> str:
    flags = ", ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))
    value = option.metavar or option.name.rpartition("_")[2].upper()
    return flags if option.is_flag or option.count else f"{flags} `{value}`"

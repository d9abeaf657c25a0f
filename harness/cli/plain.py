"""Commands whose help is for people: options are told by the word for their value, flags and choices by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

F = TypeVar("F", bound=Callable[..., Any])
WORDS = {"str": "TEXT", "int": "INTEGER", "float": "NUMBER", "path": "PATH", "bool": ""}


class WordedCommand(TyperCommand):
    """One command."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return its options and arguments, each with a word for its value."""
        return [_worded(one, ctx) for one in super().get_params(ctx)]


class WordedGroup(TyperGroup):
    """Commands under one word."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options before the command."""
        return [_worded(one, ctx) for one in super().get_params(ctx)]


class CommandSet(typer.Typer):
    """Commands that are put together."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"cls": WordedGroup, **options})

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = None, **options: Any
    ) -> Callable[[F], F]:
        """Return what adds a function as a command."""
        return super().command(name, cls=cls or WordedCommand, **options)


def _worded(param: Any, ctx: Any) -> Any:
    """Give a parameter without a word for its value one; a flag has none."""
    if getattr(param, "is_flag", False):
        param.metavar = ""
    elif param.param_type_name == "argument":
        param.display_type_rich = lambda ctx: ""  # its own name says what it is
    elif param.metavar is None:
        said = str(param.make_metavar(ctx) if hasattr(param, "make_metavar") else param.display_type_rich(ctx) or "")
        kind = said.strip("<[]>").removeprefix("list[").split()[0].strip("]") if said else ""
        param.metavar = WORDS.get(kind.lower(), kind if "|" not in kind else str(param.name).upper())
        if "|" in kind and getattr(param, "help", None) is not None:
            param.help = f"{param.help} Choices: {', '.join(kind.split('|'))}."
    return param

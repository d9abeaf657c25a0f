"""Commands whose help is for people: options are told by the word for their value, flags and choices by themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from harness.errors import BadInput
from harness.files import wrong_path

F = TypeVar("F", bound=Callable[..., Any])
WORDS = {"str": "TEXT", "int": "INTEGER", "float": "NUMBER", "path": "PATH", "bool": ""}


class WordedCommand(TyperCommand):
    """One command."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return its options and arguments, each with a word for its value."""
        return [_worded(parameter, ctx) for parameter in super().get_params(ctx)]


class WordedGroup(TyperGroup):
    """Commands under one word."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options before the command."""
        return [_worded(parameter, ctx) for parameter in super().get_params(ctx)]


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
    if _is_path(param):
        _refusing(param)
    if getattr(param, "is_flag", False):
        param.metavar = ""
    elif param.param_type_name == "argument":
        param.display_type_rich = lambda ctx: ""  # its own name says what it is
    elif param.metavar is None:
        metavar = str(param.make_metavar(ctx) if hasattr(param, "make_metavar") else param.display_type_rich(ctx) or "")
        kind = metavar.strip("<[]>").removeprefix("list[").split()[0].strip("]") if metavar else ""
        param.metavar = WORDS.get(kind.lower(), kind if "|" not in kind else str(param.name).upper())
        if "|" in kind and getattr(param, "help", None) is not None:
            param.help = f"{param.help} Choices: {', '.join(kind.split('|'))}."
    return param


def _refusing(param: Any) -> None:
    """Have a path that is none refused: an empty one, of a variable that is not set, would be the working directory."""
    if "process_value" in vars(param):
        return
    plain = param.process_value

    def process_value(ctx: Any, value: Any) -> Any:
        for word in [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else ():
            if isinstance(word, str) and (wrong := wrong_path(word)):
                name = param.opts[0] if param.param_type_name == "option" else param.metavar or str(param.name).upper()
                raise BadInput(f"{name}: {wrong}", hint=f"`{ctx.command_path} -h` says what the path is of")
        return plain(ctx, value)

    param.process_value = process_value


def _is_path(param: Any) -> bool:
    """Tell whether a parameter is a path, for the typer that has types of its own and for the one with click's."""
    kind = getattr(param, "type", None)
    if kind is not None:
        return str(kind.name) == "path"
    annotation = param.type_descriptor.annotation
    return Path in (annotation, *get_args(annotation))

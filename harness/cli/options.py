"""Options of commands from the table, and the words that a shell completes.

A command names the options that it takes and gets their values as one mapping. Completion knows tiers, cells,
values of axes, runs and machines; what cannot be read has none.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr
from dataclasses import MISSING, Field, fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer
import yaml

from harness.errors import VmatrixError
from harness.files import read_text
from harness.paths import settings_dir
from harness.rundir import RunDir
from harness.spec.options import OPTIONS, OTHER_NAMES, SETTINGS, Option, settings_in
from harness.spec.renamed import notice
from harness.spec.settings import Settings, load_settings

Words = Callable[[Any, str], list[str]]
LAST = "last"
MOST_DAYS = 36_500  # a century: longer than any history


def _quiet(words: Callable[[Any], Iterator[str]]) -> Words:
    """Return what gives words to the shell; a mistake in a file is not a message in the middle of a command line."""

    def complete(ctx: Any, incomplete: str) -> list[str]:
        try:
            with redirect_stderr(io.StringIO()):
                return [word for word in dict.fromkeys(words(ctx)) if word.startswith(incomplete)]
        except (VmatrixError, OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
            return []

    return complete


def _settings() -> Settings:
    return load_settings(settings_dir()).settings


def _tiers(_: Any) -> Iterator[str]:
    from harness.spec.project import Project

    yield from Project.load(_settings(), expired_ok=True).spec.tiers


def _planned(_: Any) -> Iterator[str]:
    from harness.session.selection import choose
    from harness.spec.project import Project

    project = Project.load(_settings(), expired_ok=True)
    yield from (selected.cell.id for selected in choose(project.spec, project.settings))
    yield from (f"{axis.name}={value.id}" for axis in project.spec.axes for value in axis.values)


def _runs(_: Any) -> Iterator[str]:
    yield from (run.path.name for run in RunDir.all_in(_settings().runs))


def _runs_or_last(_: Any) -> Iterator[str]:
    """Yield the runs whose results a command may read: `last` stands for the newest of them."""
    yield from _runs(_)
    yield LAST


def _made(_: Any) -> Iterator[str]:
    """Yield the cells of the runs of this directory: those that exist are among them."""
    for run in RunDir.all_in(_settings().runs):
        yield from run.cells()


def _machines(ctx: Any) -> Iterator[str]:
    """Yield the machines of the cell that stands before."""
    cell = (getattr(ctx, "params", None) or {}).get("cell")
    for run in RunDir.all_in(_settings().runs):
        file = run.attempt(str(cell)).hosts
        if file.is_file():
            yield from yaml.safe_load(read_text(file))["all"]["hosts"]


tiers, planned, runs, made, machines = map(_quiet, (_tiers, _planned, _runs, _made, _machines))
COMPLETED = {"TIER": tiers, "RUN": _quiet(_runs_or_last)}  # by an option's word for its value


SHARED = "shared"  # the parameter of a command that gets the values, None for options not given
SharedOptions = Mapping[str, Any]
OfRun = Annotated[
    str | None,
    typer.Option("--run", metavar="RUN", help="The cell of this run; default: the newest.", autocompletion=runs),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say what is left out, and why; else how much it is.")]
CLUSTER = ("provider", "infra_name", "kubeconfig", "context", "namespace")  # settings that lead to an infra cluster


def takes(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return what gives a function the options of these names, and those of each dataclass among its parameters.

    The function gets the options' values as a mapping `shared`, and each dataclass made from its fields' values.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        groups = {name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}
        parameters: list[Parameter] = []
        for name, own in signature(function).parameters.items():
            if name == SHARED:
                parameters += [parameter for option in names for parameter in _parameters(OPTIONS[option])]
            elif name in groups:
                parameters += _fields(groups[name])
            else:
                parameters.append(own.replace(annotation=hints[name], kind=Parameter.KEYWORD_ONLY))

        def command(**values: Any) -> None:
            if names:
                values[SHARED] = {name: _value(OPTIONS[name], values) for name in names}
            for name, group in groups.items():
                values[name] = group(**{f.name: values.pop(f.name) for f in fields(group)})
            function(**values)

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined] # what typer reads
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorate


def settings_of(shared: SharedOptions) -> Settings:
    """Return the settings in the working directory, with the options that were given."""
    return load_settings(settings_dir(), options=settings_in(shared)).settings


def days(words: str, *, least: float = 0.0) -> Any:
    """Return an option for a number of days back, within what the calendar has room for."""
    return typer.Option(min=least, max=MOST_DAYS, help=words, metavar="DAYS")


def former(old: str, new: str) -> Any:
    """Return a hidden option that is accepted in place of one of the command's own; its use is told."""

    def told(value: str | None) -> str | None:
        if value is not None:
            notice(old, new)
        return value

    return typer.Option(old, hidden=True, callback=told)


def _parameters(option: Option) -> list[Parameter]:
    """Return an option as typer reads it: the present flag, and each former one hidden."""
    both = option.kind is bool and option.name in SETTINGS  # a setting may be switched off again
    flag = f"{option.flag}/--no-{option.flag[2:]}" if both else option.flag
    complete: Any = (lambda: list(option.choices)) if option.choices else COMPLETED.get(option.metavar)
    shown = typer.Option(
        flag,
        help=option.help,
        metavar=None if option.kind is bool else option.metavar,
        autocompletion=complete,
        rich_help_panel=option.panel or None,
        hidden=option.name in OTHER_NAMES,
    )
    hidden = [(_hidden(former), typer.Option(former, hidden=True)) for former in option.former]
    kinds = {name: Annotated[option.kind | None, info] for name, info in ((option.name, shown), *hidden)}
    return [Parameter(n, Parameter.KEYWORD_ONLY, default=None, annotation=kind) for n, kind in kinds.items()]


def _fields(group: type) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    made: list[Field[Any]] = list(fields(group))
    defaults = {f.name: Parameter.empty if f.default is MISSING else f.default for f in made}
    return [Parameter(n, Parameter.KEYWORD_ONLY, default=d, annotation=hints[n]) for n, d in defaults.items()]


def _value(option: Option, values: dict[str, Any]) -> Any:
    """Take an option's value out of all values, told when it was given under a former name."""
    value = values.pop(option.name)
    for former in option.former:
        under = values.pop(_hidden(former))
        if under is not None:
            notice(former, option.flag)
            value = under if value is None else value
    return value


def _hidden(former: str) -> str:
    return former.strip("-").replace("-", "_")

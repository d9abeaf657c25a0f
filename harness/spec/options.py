"""The table of options: each setting and each field of a request is one, for the command line and for pytest alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from harness.paths import settings_dir
from harness.spec.renamed import FLAGS
from harness.spec.settings import Panel, Settings, Sourced, load_settings

NUMBERS = {int: "INTEGER", float: "NUMBER"}
OTHER_NAMES = {"keep_on_failure": "--keep failed"}  # options that another one has replaced: accepted, and not in help


@dataclass(frozen=True)
class Option:
    """One option.

    name: of the setting or field.  kind: str, int, float, bool or Path.
    choices: the allowed values; empty: any.  panel: title of its group in the help, "" for none.
    former: flags that it had before; accepted and hidden.
    """

    name: str
    kind: type
    help: str
    metavar: str
    choices: tuple[str, ...] = ()
    panel: str = ""
    former: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        """Return how it is written: --infra-name."""
        return "--" + self.name.replace("_", "-")


def asked(text: str, metavar: str) -> Any:
    """Declare a field of a request that is an option: its help text and the word for its value."""
    return field(default=None, metadata={"help": text, "metavar": metavar})


@dataclass(frozen=True)
class RunRequest:
    """What a person asks of a run.

    cells: ids, globs of ids, AXIS=VALUE.  settings: those given as options, by name; None for those not given.
    command: how the run was started, for its report.
    resolved: the settings, where whoever started this process has resolved them already.
    """

    cells: tuple[str, ...] = ()
    tier: str | None = asked("Tier of matrix/tiers.yml.", "TIER")
    failed: str | None = asked("Select the cells that did not pass in RUN (id of a run, or `last`).", "RUN")
    changed_since: str | None = asked(
        "Select the cells affected by the files changed since REV (git revision), and one more cell.", "REV"
    )
    night: str | None = asked(
        "The cells that the tier has in the night of DATE (UTC), where nights differ; default: today.", "DATE"
    )
    shard: str | None = asked("Run part I of N of the selected cells; parts take about equally long.", "I/N")
    rerun_failed: str | None = asked(
        "Run the failed cells of RUN (id of a run, or `last`) again, as further attempts of that run.", "RUN"
    )
    into: str | None = asked("Add the cells to RUN (id of a run, or `last`), instead of a run of their own.", "RUN")
    fail_fast: bool | None = asked("Begin no further cell once one has failed.", "")
    shell: bool | None = asked("Open a shell when a cell has failed, before it is deleted; one cell at a time.", "")
    run_id: str | None = asked("Id of the new run: six lower-case letters or digits; default: random.", "ID")
    settings: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    resolved: Sourced | None = None

    @staticmethod
    def of(
        given: Mapping[str, Any], *, cells: tuple[str, ...] = (), command: str = "", resolved: Sourced | None = None
    ) -> RunRequest:
        """Return the request that options make, by their names; None for those not given."""
        own = {name: value for name, value in given.items() if name in REQUEST}
        return RunRequest(cells=cells, command=command, settings=settings_in(given), resolved=resolved, **own)

    def sourced(self) -> Sourced:
        """Return the settings of the working directory, with the options. Raises BadInput as `load_settings`."""
        return self.resolved or load_settings(settings_dir(), options=self.settings)


def settings_in(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of some options that are settings."""
    return {name: value for name, value in options.items() if name in Settings.model_fields}


def _of_setting(name: str) -> Option:
    model_field = Settings.model_fields[name]
    kind, choices = _type_of(model_field.annotation)
    metavar = NUMBERS.get(kind, "") or ("PATH" if kind is Path else name.rpartition("_")[2].upper())
    panel = next((mark.title for mark in model_field.metadata if isinstance(mark, Panel)), "")
    help_text = (
        f"{model_field.description} Choices: {', '.join(choices)}." if choices else model_field.description or ""
    )
    return Option(name, kind, help_text, metavar, choices, panel, FLAGS.get(name, ()))


def _type_of(annotation: Any) -> tuple[type, tuple[str, ...]]:
    """Return the type of an option's value, and the values themselves where only some are allowed."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _type_of(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return _type_of(next(part for part in get_args(annotation) if part is not type(None)))
    if origin is Literal:
        return str, get_args(annotation)
    return annotation, ()


def _of_request() -> dict[str, Option]:
    hints = get_type_hints(RunRequest)
    shown = [f for f in fields(RunRequest) if f.metadata and f.default is not MISSING]
    return {f.name: Option(f.name, _type_of(hints[f.name])[0], **f.metadata) for f in shown}


SETTINGS = {name: _of_setting(name) for name in Settings.model_fields}
REQUEST = _of_request()
OPTIONS = {**REQUEST, **SETTINGS}
RUN = (*REQUEST, *(name for name, option in SETTINGS.items() if option.panel))  # of `vmatrix run` and pytest

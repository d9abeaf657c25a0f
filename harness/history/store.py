"""Where the history is kept, by the settings: a file or a package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from harness.errors import BadInput
from harness.history.file import FileStore
from harness.history.origin import JOB
from harness.rundir import HISTORY
from harness.spec.settings import Settings
from harness.urls import wrong_token, wrong_url

if TYPE_CHECKING:
    from harness.history.lines import History
    from harness.history.package import PackageStore
    from harness.history.record import Record

TOKEN = "MATRIX_HISTORY_TOKEN"  # noqa: S105 - the variable's name
JOB_TOKEN = "CI_JOB_TOKEN"  # noqa: S105 - the variable's name


class HistoryStore(Protocol):
    """Where records are kept. Adding what is there already changes nothing."""

    @property
    def name(self) -> str:
        """Return where the history is, for people."""

    def load(self) -> History:
        """Return the history."""

    def recent(self) -> bytes:
        """Return the lines that were added last, perhaps after a part of one; enough to tell what cells take."""

    def add(self, records: Iterable[Record]) -> int:
        """Add those records that are not there, and return their number."""

    def compact(self, *, days: float, now: datetime) -> int:
        """Drop the details of records older than so many days, and return of how many."""


def file_of(settings: Settings) -> Path:
    """Return the history's file on this machine."""
    return settings.report_file if settings.report_file is not None else settings.runs / HISTORY


def open_store(settings: Settings, environment: Mapping[str, str]) -> HistoryStore:
    """Return the store that the settings name, not yet accessed; BadInput when it lacks variables of GitLab."""
    if settings.report_history == "package":
        return _package(settings, environment)
    return FileStore(file_of(settings))


def store_of_runs(settings: Settings, environment: Mapping[str, str]) -> HistoryStore:
    """Return where runs that start here end up: in a job as `open_store` says, elsewhere in this machine's file."""
    return open_store(settings, environment) if environment.get(JOB) else FileStore(file_of(settings))


def _package(settings: Settings, environment: Mapping[str, str]) -> PackageStore:
    missing = [name for name in ("CI_API_V4_URL", "CI_PROJECT_ID") if not environment.get(name)]
    token, job_token = environment.get(TOKEN, ""), environment.get(JOB_TOKEN, "")
    missing += [] if token or job_token else [f"{TOKEN} (or {JOB_TOKEN})"]
    if missing:
        raise BadInput(
            f"report_history: package needs the variables {', '.join(missing)}",
            hint="GitLab jobs have them; elsewhere, set them and use a token with the scope api",
        )
    _refuse_unusable(environment)
    from harness.history.package import PackageStore  # speaks HTTP, which a file does not need

    return PackageStore(
        api=environment["CI_API_V4_URL"].rstrip("/"),
        project=environment["CI_PROJECT_ID"],
        package=settings.report_package,
        header="PRIVATE-TOKEN" if token else "JOB-TOKEN",
        token=token or job_token,
    )


def _refuse_unusable(environment: Mapping[str, str]) -> None:
    """Refuse variables of GitLab that no request could be made with; a token is not shown."""
    wrong = {
        "CI_API_V4_URL": wrong_url(environment["CI_API_V4_URL"]),
        **{name: wrong_token(environment.get(name, "")) for name in (TOKEN, JOB_TOKEN)},
    }
    for name, said in wrong.items():
        if said:
            raise BadInput(f"{name} cannot be used: {said}", hint="GitLab sets the address; a token is one word")

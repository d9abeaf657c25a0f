"""Where the history is kept, by the settings: a file, a branch, a package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Protocol

from harness.errors import BadInput
from harness.history.branch import BranchStore, remote_url
from harness.history.file import FileStore
from harness.history.lines import History
from harness.history.package import PackageStore
from harness.history.record import Record
from harness.rundir import HISTORY
from harness.spec.settings import Settings

TOKEN = "MATRIX_HISTORY_TOKEN"  # noqa: S105 - the variable's name
JOB_TOKEN = "CI_JOB_TOKEN"  # noqa: S105 - the variable's name


class HistoryStore(Protocol):
    """Where records are kept. Adding what is there already changes nothing."""

    @property
    def name(self) -> str:
        """Return where the history is, for people."""

    def load(self) -> History:
        """Return the history."""

    def add(self, records: Iterable[Record]) -> int:
        """Add those records that are not there, and return their number."""

    def compact(self, *, days: float, now: datetime) -> int:
        """Drop the details of records older than so many days, and return of how many."""


def file_of(settings: Settings) -> Path:
    """Return the history's file on this machine."""
    return settings.report_file if settings.report_file is not None else settings.runs / HISTORY


def open_store(settings: Settings, checkout: Path, environment: Mapping[str, str]) -> HistoryStore:
    """Return the store that the settings name; it is not looked at yet.

    Args:
        checkout: whose remote a branch is pushed to.

    Raises:
        BadInput: a package needs to know GitLab.  InfraError: the checkout has no such remote.
    """
    if settings.report_history == "branch":
        token = environment.get(TOKEN, "")
        url = remote_url(checkout, settings.report_remote, own_token=bool(token))
        return BranchStore(url, settings.report_branch, token)
    if settings.report_history == "package":
        return _package(settings, environment)
    return FileStore(file_of(settings))


def _package(settings: Settings, environment: Mapping[str, str]) -> PackageStore:
    missing = [name for name in ("CI_API_V4_URL", "CI_PROJECT_ID") if not environment.get(name)]
    token, job_token = environment.get(TOKEN, ""), environment.get(JOB_TOKEN, "")
    missing += [] if token or job_token else [f"{TOKEN} (or {JOB_TOKEN})"]
    if missing:
        raise BadInput(
            f"report_history: package needs the variables {', '.join(missing)}",
            hint="a GitLab job has them; at a desk set them, the token being one with the scope api",
        )
    return PackageStore(
        api=environment["CI_API_V4_URL"].rstrip("/"),
        project=environment["CI_PROJECT_ID"],
        package=settings.report_package,
        header="PRIVATE-TOKEN" if token else "JOB-TOKEN",
        token=token or job_token,
    )

"""The error tree: who is to blame, what to do next, and the exit code.

Covers every error that a person may see. Does not cover formatting (the command and the report do that).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

EXIT_OK = 0
EXIT_PRODUCT = 1
EXIT_BAD_INPUT = 2
EXIT_INFRA = 3
EXIT_NOTHING_SELECTED = 4
EXIT_LEAKED = 5
EXIT_HARNESS = 70
EXIT_RETRY = 75


class Blame(StrEnum):
    """Whose fault a failure is."""

    PRODUCT = "product"
    INFRA = "infra"
    HARNESS = "harness"
    USER = "user"


class VmatrixError(Exception):
    """A failure that a person reads: one summary line, a hint what to do next, and paths to look at."""

    blame: ClassVar[Blame] = Blame.HARNESS
    exit_code: ClassVar[int] = EXIT_HARNESS

    def __init__(self, summary: str, *, hint: str = "", paths: Sequence[Path] = (), detail: str = "") -> None:
        super().__init__(summary)
        self.summary = summary
        self.hint = hint
        self.paths = tuple(paths)
        self.detail = detail

    @property
    def with_hint(self) -> str:
        """Return the summary and the hint in one line, for a status that has no place of its own for hints."""
        return f"{self.summary} ({self.hint})" if self.hint else self.summary

    @property
    def passing(self) -> bool:
        """Tell whether the same may succeed a moment later, so that a wait goes on in spite of it."""
        return False


class BadInput(VmatrixError):
    """What the user gave cannot be used; nothing was changed."""

    blame = Blame.USER
    exit_code = EXIT_BAD_INPUT


class NotText(BadInput):
    """A file that the user named is not UTF-8 text.

    line: of the first byte that is not.
    """

    def __init__(self, summary: str, *, line: int = 1, hint: str = "") -> None:
        super().__init__(summary, hint=hint)
        self.line = line


class NothingSelected(BadInput):
    """The selection is valid and matches no cell."""

    exit_code = EXIT_NOTHING_SELECTED


class NotUp(BadInput):
    """The infra cluster that was named is not up; nothing is wrong with the name."""

    exit_code = EXIT_NOTHING_SELECTED


class BadImage(BadInput):
    """A disk image that the user named is not what it is said to be: found out while it was imported."""


class ProductError(VmatrixError):
    """The deployment code under test failed. Never retried."""

    blame = Blame.PRODUCT
    exit_code = EXIT_PRODUCT


class InfraError(VmatrixError):
    """The infrastructure failed in a way that a retry will not fix."""

    blame = Blame.INFRA
    exit_code = EXIT_INFRA


class InfraRetriable(InfraError):
    """The infrastructure failed in a way that a second attempt may survive."""

    exit_code = EXIT_RETRY


class Leaked(InfraError):
    """Something that a run made could not be deleted."""

    exit_code = EXIT_LEAKED


class HarnessBug(VmatrixError):
    """The harness contradicted itself."""

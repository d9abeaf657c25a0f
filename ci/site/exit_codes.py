"""Every exit code of an error, with the errors that end with it."""

from __future__ import annotations

from collections.abc import Iterator

from ci.site.tables import table
from harness import errors


def text() -> str:
    """Return a table of the errors that a person may see, by exit code."""
    rows = sorted(_rows(errors.VmatrixError), key=lambda row: int(row[0].strip("`")))
    return table(("exit code", "to blame", "what happened"), rows)


def _rows(error: type[errors.VmatrixError]) -> Iterator[tuple[str, str, str]]:
    for one in error.__subclasses__():
        if one.__module__ == errors.__name__:
            yield f"`{one.exit_code}`", one.blame.value, (one.__doc__ or "").partition("\n\n")[0]
        yield from _rows(one)

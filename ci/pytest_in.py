"""Runs pytest in a folder, or only in what its arguments name below the folder.

    python -m ci.pytest_in tests/embedded                               all of it
    python -m ci.pytest_in tests/embedded -k full                       of all of it, what is named so
    python -m ci.pytest_in tests/embedded tests/embedded/cdi -k full    of one folder

pytest itself runs everything below both of two paths, so an environment of tox that names its folder could not be
narrowed down to a part of it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest


def arguments(folder: str, words: Sequence[str]) -> list[str]:
    """Return pytest's arguments: `words`, after the folder unless one of them is a path below it."""
    below = [word for word in words if Path(folder) in Path(word.partition("::")[0]).parents]
    return [*words] if below else [folder, *words]


if __name__ == "__main__":
    sys.exit(pytest.main(arguments(sys.argv[1], sys.argv[2:])))

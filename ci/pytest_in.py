"""Runs pytest on tests, or only on those of them that further arguments name.

    python -P -m ci.pytest_in tests/embedded --                              all of it
    python -P -m ci.pytest_in tests/embedded -- -k full                      of all of it, what is named so
    python -P -m ci.pytest_in tests/embedded -- tests/embedded/cdi -k full   of one folder

pytest itself runs everything below both of two paths, so an environment of tox that names tests could not be narrowed
down: what is before `--` is the environment's, what is after it is typed. -P: the working directory is not searched
for modules, as with the program pytest.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

TESTS = "tests/"
END = "--"


def arguments(words: Sequence[str]) -> list[str]:
    """Return pytest's arguments: without the paths before `--` where one after it is within them."""
    end = words.index(END) if END in words else len(words)
    own, typed = words[:end], words[end + 1 :]
    paths = [Path(word) for word in own if word.startswith(TESTS)]
    named = [Path(word.partition("::")[0]) for word in typed]
    if any(path in (name, *name.parents) for path in paths for name in named):
        own = [word for word in own if not word.startswith(TESTS)]
    return [*own, *typed]


if __name__ == "__main__":
    sys.exit(pytest.main(arguments(sys.argv[1:])))

"""Runs pytest on tests, or only on those of them that further arguments name.

    python -P -m ci.pytest_in tests/embedded --                              all of it
    python -P -m ci.pytest_in tests/embedded -- -k full                      of all of it, what is named so
    python -P -m ci.pytest_in tests/embedded -- tests/embedded/cdi -k full   of one folder

pytest itself runs everything below both of two paths, so an environment of tox that names tests could not be narrowed
down: what is before `--` is the environment's, what is after it is typed. -P: the working directory is not searched
for modules, as with the program pytest. A job that is ended (SIGTERM, SIGHUP) is for pytest what Ctrl-C is: it takes
down what the fixtures made, and says which tests had failed.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import pytest

TESTS = "tests/"
END = "--"
ENDED = (signal.SIGTERM, signal.SIGHUP)


def arguments(words: Sequence[str]) -> list[str]:
    """Return pytest's arguments: without the paths before `--` where one after it is within them."""
    end = words.index(END) if END in words else len(words)
    own, typed = words[:end], words[end + 1 :]
    paths = [Path(word) for word in own if word.startswith(TESTS)]
    named = [Path(word.partition("::")[0]) for word in typed]
    if any(path in (name, *name.parents) for path in paths for name in named):
        own = [word for word in own if not word.startswith(TESTS)]
    return [*own, *typed]


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    for number in ENDED:  # what is taken down takes its time
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    for number in ENDED:
        signal.signal(number, _interrupt)
    sys.exit(pytest.main(arguments(sys.argv[1:])))

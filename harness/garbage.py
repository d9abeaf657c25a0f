"""Python's search for reference cycles that nobody needs any more, where it finds none and takes time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unsearched() -> Iterator[None]:
    """Have nothing searched meanwhile: for what makes many objects that stay, such as modules or a matrix."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()

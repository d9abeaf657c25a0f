"""Start-up: no search for garbage where there is none, and none for Pydantic's plugins.

Pydantic looks for plugins before it makes the first validator, and reads what every installed package says of itself:
https://docs.pydantic.dev/latest/concepts/plugins/.
"""

from __future__ import annotations

import gc
import os
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


OFF = "PYDANTIC_DISABLE_PLUGINS"


@contextmanager
def unplugged() -> Iterator[None]:
    """Have no plugins looked for meanwhile. A choice in the environment stays, and so does the environment."""
    if OFF in os.environ:
        yield
        return
    os.environ[OFF] = "__all__"
    try:
        yield
    finally:
        del os.environ[OFF]

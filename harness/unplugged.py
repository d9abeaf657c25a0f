"""Pydantic without its plugins, for commands that are over at once.

Pydantic looks for plugins before it makes the first validator, and reads what every installed package says of itself:
https://docs.pydantic.dev/latest/concepts/plugins/.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

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

"""Part of machine_network.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Dialled = Mapping[str, Sequence[Sequence[Any]]]  # by machine: [kind, what was given..., why it failed]


Ask = Callable[[Mapping[str, Any]], Dialled]  # lets every machine dial


NOTHING: Mapping[str, Any] = {"tcp": [], "echo": [], "dns": [], "seen": [], "code": [], "records": []}

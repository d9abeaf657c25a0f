"""What a cell's network plugin leaves in a guest that works, by matrix/network_plugins.yml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from harness.errors import BadInput
from harness.spec.loader import load_layered
from harness.spec.models import Gateway as Gateway
from harness.spec.models import NetworkPlugin
from harness.spec.models.network_plugins import NetworkPluginsFile
from harness.spec.project import matrix_dir

FILE = "network_plugins.yml"


def plugins() -> Mapping[str, NetworkPlugin]:
    """Return every network plugin that the project describes, by name."""
    return _read(matrix_dir())


@cache
def _read(directory: Path) -> Mapping[str, NetworkPlugin]:
    return load_layered(directory, FILE, NetworkPluginsFile).network_plugins


def plugin_named(name: str) -> NetworkPlugin:
    """Return a network plugin. Raises BadInput for an unknown one: the checks would pass without having looked."""
    known = plugins()
    if name not in known:
        raise BadInput(
            f"the network plugin {name!r} is not described, only {', '.join(known)}",
            hint=f"add it to {matrix_dir() / FILE}; docs/extending.md shows how",
        )
    return known[name]

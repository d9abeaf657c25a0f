"""What a cell's network plugin leaves in a guest that works, by matrix/network_plugins.yml and by the product."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from harness.spec.loader import load_layered
from harness.spec.models import Gateway as Gateway
from harness.spec.models import NetworkPlugin
from harness.spec.models.leaves import PluginLeaves
from harness.spec.models.network_plugins import NetworkPluginsFile
from harness.spec.project import matrix_dir

FILE = "network_plugins.yml"


def plugins() -> Mapping[str, NetworkPlugin]:
    """Return every network plugin that the project describes, by name."""
    return _read(matrix_dir())


@cache
def _read(directory: Path) -> Mapping[str, NetworkPlugin]:
    return load_layered(directory, FILE, NetworkPluginsFile).network_plugins


def plugin_named(name: str, variety: PluginLeaves | None = None) -> NetworkPlugin | None:
    """Return a network plugin, None for one that nobody describes.

    Args:
        variety: what the product says of it; this wins.
    """
    known = plugins().get(name)
    if variety is None:
        return known
    given = {key: getattr(variety, key) for key in variety.model_fields_set}
    if given.get("look", "") is None:
        del given["look"]
    return (known or NetworkPlugin()).model_copy(update=given)

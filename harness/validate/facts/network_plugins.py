"""What a cell's network plugin leaves in a guest that works, by matrix/network_plugins.yml and by the product."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from harness.paths import MATRIX, packaged_dir
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


def plugin_named(name: str, varieties: Mapping[str, PluginLeaves] | None) -> NetworkPlugin | None:
    """Return a network plugin, None for one that nobody describes.

    Args:
        varieties: what the product says of its plugins, which wins. None: it says nothing, so that the packaged file,
            which is about vmatrix's own playbooks, does not count.
    """
    own = matrix_dir() / FILE
    if varieties is None and (not own.is_file() or own.samefile(packaged_dir() / MATRIX / FILE)):
        return None
    known, variety = plugins().get(name), (varieties or {}).get(name)
    if variety is None:
        return known
    given = {key: getattr(variety, key) for key in variety.model_fields_set}
    if given.get("look", "") is None:
        del given["look"]
    return (known or NetworkPlugin()).model_copy(update=given)

"""What each network plugin leaves in a working guest, as the product describes it."""

from __future__ import annotations

from collections.abc import Mapping

from harness.errors import BadInput
from harness.paths import project_dir
from harness.spec.network_plugins import Gateway as Gateway
from harness.spec.network_plugins import NetworkPlugin as NetworkPlugin
from harness.spec.network_plugins import load


def plugins() -> Mapping[str, NetworkPlugin]:
    """Return every network plugin that the product describes, by name."""
    return load(project_dir())


def plugin_named(name: str) -> NetworkPlugin:
    """Return a network plugin. Raises BadInput for an unknown one: the checks would pass without having looked."""
    known = plugins()
    if name not in known:
        raise BadInput(
            f"the product does not describe the network plugin {name!r}, only {', '.join(known) or 'none'}",
            hint="add it to the file that `network_plugins` in matrix/product.yml names; see docs/extending.md",
        )
    return known[name]

"""Whether what runs has the cell's versions, judged by the files of the processes and not by what deployed them."""

from __future__ import annotations

from collections.abc import Mapping

from harness.validate.findings import Mismatch, differs, on_every
from harness.validate.phases.observation import Observation
from harness.validate.phases.upgrade import not_judged, seen_versions, wanted_versions
from harness.validate.variables import METRICS_SERVER

OF_PLUGINS = {"flannel": "flanneld"}  # the program in a network plugin's image
IMAGE = ", image"


def wrong_running(seen: Observation) -> list[Mismatch]:
    """Return the programs that do not run in the cell's version, or not at all where they must."""
    wanted = {place: one for place, one in wanted_versions(seen).items() if not place.endswith(IMAGE)}
    wanted |= _others(seen)
    found = seen_versions(seen)
    for machine, running in seen.running.items():
        found |= {f"{machine}: {name}, running": ", ".join(versions) for name, versions in running.versions.items()}
    anywhere = {version for running in seen.running.values() for version in running.versions.get(METRICS_SERVER, ())}
    found[f"{METRICS_SERVER}, running"] = ", ".join(sorted(anywhere))
    judged = on_every(tuple(wanted), found, lambda place, version: differs(place, "version", wanted[place], version))
    return judged + not_judged(seen)


def _others(seen: Observation) -> Mapping[str, str]:
    """Return the versions of what an upgrade of Kubernetes leaves alone: runtime, network plugin, metrics-server."""
    expected, wanted = seen.expected, {}
    plugin = OF_PLUGINS.get(expected.plugin.image or "", "") if expected.plugin is not None else ""
    for node in expected.nodes:
        if expected.leaves.runtime_unit is not None and expected.runtime_process and expected.runtime_version:
            wanted[f"{node}: {expected.runtime_process}, running"] = expected.runtime_version
        if plugin and expected.plugin_version:
            wanted[f"{node}: {plugin}, running"] = expected.plugin_version
    if METRICS_SERVER in expected.addons:
        wanted[f"{METRICS_SERVER}, running"] = expected.addons[METRICS_SERVER]
    return wanted

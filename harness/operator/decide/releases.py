"""Which versions belong together: those of the matrix, as a table that ships with the operator.

The table lies beside this module and not in matrix/: an operator knows what was tested when it was made, whatever a
project makes of the matrix, and an image needs no matrix for it. `releases_file` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

FILE = Path(__file__).with_name("releases.yml")


@dataclass(frozen=True)
class KnownReleases:
    """The table.

    kubernetes: by version of Kubernetes, the versions of what belongs to it (etcd, coredns, pause), oldest first.
    minors: by version, the one of the minor before it that an upgrade to it is tested from.
    defaults: versions of the other components and of the add-ons: the latest of the matrix.
    """

    kubernetes: Mapping[str, Mapping[str, str]]
    minors: Mapping[str, str]
    defaults: Mapping[str, str]

    def components(self, version: str) -> dict[str, str]:
        """Return the versions of all components for a version of Kubernetes; only the defaults for an unknown one."""
        return {**self.defaults, **self.kubernetes.get(version, {})}

    def hops(self, running: str, wanted: str) -> tuple[str, ...]:
        """Return the versions that an upgrade goes through, the wanted one last: one minor at a time.

        Empty when the table knows no such way: back, or past a minor that it does not have.
        """
        if _numbers(running) >= _numbers(wanted):
            return ()
        way = [wanted]
        while _minor(way[0]) > _next_minor(running):
            if way[0] not in self.minors:
                return ()
            way.insert(0, self.minors[way[0]])
        return tuple(way)


@cache
def load_releases() -> KnownReleases:
    """Return the table that ships with the operator."""
    return KnownReleases(**yaml.safe_load(FILE.read_text(encoding="utf-8")))


def component(variable: str) -> str:
    """Return the component whose version a variable is: cni-plugins for cluster_cni_plugins_version."""
    return variable.removeprefix("cluster_").removesuffix("_version").replace("_", "-")


def variable(component: str) -> str:
    """Return the variable that is a component's version: cluster_cni_plugins_version for cni-plugins."""
    return f"cluster_{component.replace('-', '_')}_version"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _minor(version: str) -> tuple[int, ...]:
    return _numbers(version)[:2]


def _next_minor(version: str) -> tuple[int, ...]:
    major, minor = _minor(version)
    return major, minor + 1

"""Which versions belong together: those of the matrix, as a table that ships with the operator.

The table lies beside this module and not in matrix/: an operator knows what was tested when it was made, whatever a
project makes of the matrix, and an image needs no matrix for it. `vmatrix operator releases --write` writes it, and a
unit test holds it to the matrix.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from harness.paths import MATRIX, packaged_dir
from harness.spec.loader import load_layered
from harness.spec.models import FILES, Axis

FILE = Path(__file__).with_name("releases.yml")
HEAD = "# Made from matrix/axes.yml by `vmatrix operator releases --write`; do not edit.\n"
KUBERNETES = "kubernetes"  # the axis of which each value is a release, and what its own version is called


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
        if numbers(running) >= numbers(wanted):
            return ()
        major, minor = numbers(running)[:2]
        way = [wanted]
        while numbers(way[0])[:2] > (major, minor + 1):
            if way[0] not in self.minors:
                return ()
            way.insert(0, self.minors[way[0]])
        return tuple(way)


@cache
def load_releases() -> KnownReleases:
    """Return the table that ships with the operator."""
    return KnownReleases(**yaml.safe_load(FILE.read_text(encoding="utf-8")))


def of_matrix() -> KnownReleases:
    """Return the table that the packaged matrix gives. Values of an axis are ordered from old to new."""
    axes: tuple[Axis, ...] = dict(load_layered(packaged_dir() / MATRIX, "axes.yml", FILES["axes.yml"]))["axes"]
    releases = next(axis for axis in axes if axis.name == KUBERNETES).values
    others = (value for axis in axes if axis.name != KUBERNETES for value in axis.values)
    return KnownReleases(
        {one.id: _versions(one.vars) for one in releases},
        {one.id: one.before["minor"] for one in releases if "minor" in one.before},
        {name: version for value in others for name, version in _versions(value.vars).items()},
    )


def as_text(table: KnownReleases) -> str:
    """Return the table as the file has it."""
    return HEAD + yaml.safe_dump(vars(table), sort_keys=False)


def component(variable: str) -> str:
    """Return the component whose version a variable is: cni-plugins for cluster_cni_plugins_version."""
    return variable.removeprefix("cluster_").removesuffix("_version").replace("_", "-")


def _versions(variables: Mapping[str, Any]) -> dict[str, str]:
    """Return the versions of components that are among variables of the playbooks, but for Kubernetes' own."""
    versions = (name for name in variables if name.startswith("cluster_") and name.endswith("_version"))
    made = {component(name): str(variables[name]) for name in versions}
    return {name: version for name, version in made.items() if name != KUBERNETES}


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, to compare by."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])

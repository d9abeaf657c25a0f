"""The table of releases as the packaged matrix gives it, for the file that ships: `vmatrix operator releases --write`.

A unit test holds the file to the matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from harness.operator.decide.releases import KnownReleases, component
from harness.paths import MATRIX, packaged_dir
from harness.spec.loader import load_layered
from harness.spec.models import FILES, Axis

HEAD = "# Made from matrix/axes.yml by `vmatrix operator releases --write`; do not edit.\n"
KUBERNETES = "kubernetes"  # the axis of which each value is a release, and what its own version is called


def made() -> KnownReleases:
    """Return the table that the packaged matrix gives. Values of an axis are ordered from old to new."""
    axes: tuple[Axis, ...] = dict(load_layered(packaged_dir() / MATRIX, "axes.yml", FILES["axes.yml"]))["axes"]
    releases = next(axis for axis in axes if axis.name == KUBERNETES).values
    others = (value for axis in axes if axis.name != KUBERNETES for value in axis.values)
    return KnownReleases(
        {one.id: {name: v for name, v in _versions(one.vars) if name != KUBERNETES} for one in releases},
        {one.id: one.before["minor"] for one in releases if "minor" in one.before},
        {name: version for value in others for name, version in _versions(value.vars)},
    )


def as_text(table: KnownReleases) -> str:
    """Return the table as the file has it."""
    return HEAD + yaml.safe_dump(vars(table), sort_keys=False)


def _versions(variables: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the components whose versions are among variables of the playbooks."""
    for name, value in variables.items():
        if name.startswith("cluster_") and name.endswith("_version"):
            yield component(name), str(value)

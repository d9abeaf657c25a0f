"""The variables of the playbooks that a ClusterDeployment stands for; docs/playbooks.md has every variable.

`spec.variables` adds variables that no field stands for. Where a field is a mapping, it is merged with the variable, so
that settings which machines need and settings which a person wants go side by side. Versions that the spec does not
name come from the release table.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from harness.kube.objects import dig
from harness.operator.api.cluster import AppliedState
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.components import GATES_FLAG
from harness.operator.api.endpoint import VIRTUAL, api_names
from harness.operator.api.resources import ETCD_CLUSTER
from harness.operator.api.rules import (
    API_NAMES,
    EXTERNAL_CA,
    GATED,
    KNOWN,
    OPERATORS_OWN,
    SETTINGS,
    VIRTUAL_ADDRESS,
    Part,
    variable,
)
from harness.paths import MATRIX, packaged_dir
from harness.spec.loader import load_layered
from harness.spec.models import FILES, Axis
from harness.spec.variables import merged

FILE = Path(__file__).with_name("releases.yml")
HEAD = "# Made from matrix/axes.yml by `vmatrix operator releases --write`; do not edit.\n"
CRIO = "crio"
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

    def hops(self, running: str, target: str) -> tuple[str, ...]:
        """Return the versions that an upgrade goes through, the wanted one last: one minor at a time.

        Empty when the table knows no such way: back, or past a minor that it does not have.
        """
        if numbers(running) >= numbers(target):
            return ()
        major, minor = numbers(running)[:2]
        way = [target]
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
        {release.id: _versions(release.vars) for release in releases},
        {release.id: release.before["minor"] for release in releases if "minor" in release.before},
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


def key_name(key: str) -> str:
    """Return what the playbooks call a key that Secrets are encrypted with, by its digest; "" for none."""
    return f"key-{hashlib.sha256(key.encode()).hexdigest()[:10]}" if key else ""


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, to compare by."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


# Fields of a ClusterDeployment that an EtcdCluster has, too; of all others the playbooks keep their own defaults.
OF_ETCD = (
    *("version", "components.etcd", "etcd.", "certificates.validity", "certificates.caValidity"),
    *("certificates.renewBeforeDays", "maintenance.defragment", "source.type", "source.mirror", "source.checksums"),
    *("source.architecture", "source.sites."),
)
PARTS: tuple[Part, ...] = ("version", "source", "settings", "machines", "addons", "clients")
# Places in the executor's pod, which its program adds to the variables.
OF_THE_EXECUTOR = (
    *("cluster_kubeconfig_path", "cluster_etcd_snapshot_path", "cluster_authority_path"),
    *("cluster_external_ca_folder", "cluster_etcd_client_path"),
)


def part_of(name: str) -> Part | None:
    """Return the part of the cluster that a variable changes; None where it changes none by itself."""
    return KNOWN[name].part if name in KNOWN else "settings"


def path_of(name: str) -> str:
    """Return the field that a variable comes from."""
    return f"spec.{KNOWN[name].path}" if name in KNOWN else f"spec.variables.{name}"


def in_part(variables: Mapping[str, Any], part: Part) -> dict[str, Any]:
    """Return those variables that change a part of the cluster."""
    return {name: value for name, value in variables.items() if part_of(name) == part}


def with_parts(variables: Mapping[str, Any], other: Mapping[str, Any], *parts: Part | None) -> dict[str, Any]:
    """Return variables with those of some parts as others have them."""
    kept = {name: value for name, value in variables.items() if part_of(name) not in parts}
    return {**kept, **{name: value for name, value in other.items() if part_of(name) in parts}}


def variables_of(cd: ClusterDeployment, versions: Mapping[str, str]) -> dict[str, Any]:
    """Return the variables of a cluster, but for its hosts and those that only the executor knows (OF_THE_EXECUTOR).

    Args:
        versions: of its components and add-ons, by name.
    """
    spec, runtime = cd.spec.model_dump(mode="json", by_alias=True, exclude_none=True), cd.spec.runtime.name
    made = {field.variable: dig(spec, *field.path.split(".")) for field in SETTINGS if field.runtime in ("", runtime)}
    made["cluster_artifact_source"] = cd.spec.source.type.lower()
    made |= {variable(name): version for name, version in versions.items()}
    made = merged({name: value for name, value in made.items() if value is not None}, _gates(cd))
    if not cd.spec.authority.keys_on_machines:
        made[EXTERNAL_CA] = True
    endpoint = cd.spec.way
    if endpoint.type == VIRTUAL:
        made[VIRTUAL_ADDRESS] = endpoint.address
    if names := api_names(endpoint, cd.metadata.name, cd.metadata.namespace):
        made[API_NAMES] = [*names, *(name for name in made.get(API_NAMES, ()) if name not in names)]
    own = {name: value for name, value in cd.spec.variables.items() if name not in OPERATORS_OWN}
    if API_NAMES in made and isinstance(further := own.get(API_NAMES), list):
        own[API_NAMES] = [*made[API_NAMES], *(name for name in further if name not in made[API_NAMES])]
    if cd.kind == ETCD_CLUSTER.kind:
        made = {name: value for name, value in made.items() if KNOWN[name].path.startswith(OF_ETCD)}
    return merged(made, own)


def _gates(cd: ClusterDeployment) -> dict[str, Any]:
    """Return the variables by which every component gets the feature gates; each knows all of them."""
    gates = dict(sorted(cd.spec.kubernetes.feature_gates.items()))
    if not gates:
        return {}
    flag = ",".join(f"{name}={str(on).lower()}" for name, on in gates.items())
    return {name: {key: flag if key == GATES_FLAG else gates} for name, key in GATED.items()}


def versions_of(cd: ClusterDeployment, releases: KnownReleases, applied: AppliedState | None) -> dict[str, str]:
    """Return the versions of what the cluster consists of, besides Kubernetes' own.

    A version that the spec does not name stays as it was deployed until the Kubernetes version changes: another
    operator with a newer table upgrades no cluster by itself.
    """
    runtime = cd.spec.runtime
    known = releases.components(cd.spec.version)
    if applied is not None and applied.version == cd.spec.version:
        known |= {n: str(applied.variables[variable(n)]) for n in known if variable(n) in applied.variables}
    named: dict[str, str] = cd.spec.components.model_dump(by_alias=True, exclude_none=True)
    named |= {runtime.name: runtime.version} if runtime.version is not None else {}
    addons = {addon.name: addon.version or known.get(addon.name) for addon in cd.spec.addons if addon.manifests is None}
    parts = ["etcd", "coredns", "pause", runtime.name, "runc", "cni-plugins", cd.spec.network.plugin]
    parts += ["crictl"] if runtime.name == CRIO else []
    made = {name: {**known, **named}.get(name) for name in parts} | addons
    return {name: version for name, version in made.items() if version is not None}

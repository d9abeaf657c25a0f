"""The variables of the playbooks that a ClusterDeployment stands for.

`spec.variables` wins over all fields; where both have a mapping, these are merged, so that settings which machines need
and settings which a person wants go side by side. Versions that the spec does not name come from the release table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.operator.api.cluster import AppliedState
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.rules import OPERATORS_OWN
from harness.operator.decide.fields import HOSTS, SETTINGS
from harness.operator.decide.releases import KnownReleases, variable
from harness.spec.merged import merged


def variables_of(cd: ClusterDeployment, versions: Mapping[str, str], hosts: list[dict[str, str]]) -> dict[str, Any]:
    """Return the variables of a cluster, but for those that only the executor knows (`fields.OF_THE_EXECUTOR`).

    Args:
        versions: of its components and add-ons, by name.  hosts: its machines, as `cluster_hosts` has them.
    """
    spec = cd.spec.model_dump(mode="json", by_alias=True)
    made = {field.variable: _at(spec, field.path) for field in SETTINGS}
    made["cluster_artifact_source"] = cd.spec.source.type.lower()
    made |= {variable(name): version for name, version in versions.items()}
    own = {name: value for name, value in cd.spec.variables.items() if name not in OPERATORS_OWN}
    return {**merged({n: v for n, v in made.items() if v is not None}, own), HOSTS: hosts}


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
    addons = {addon.name: addon.version or known.get(addon.name) for addon in cd.spec.addons}
    parts = ("etcd", "coredns", "pause", runtime.name, "runc", "cni-plugins", cd.spec.network.plugin)
    made = {name: {**known, **named}.get(name) for name in parts} | addons
    return {name: version for name, version in made.items() if version is not None}


def _at(content: Any, path: str) -> Any:
    for key in path.split("."):
        content = content[key]
    return content

"""The product file that a ClusterDeployment names, from its ConfigMap."""

from __future__ import annotations

from collections.abc import Sequence

from harness.kube.client import Cluster
from harness.kube.kinds.form import SpecMistake
from harness.kube.resources import CONFIG_MAP
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.decide.product_file import KnownProduct, in_config_map

AGAIN_SECONDS = 30.0  # pacing: ConfigMaps are not watched, because a namespace has many that are none of ours


def product_of(cluster: Cluster, wish: ClusterDeployment | None) -> tuple[KnownProduct | None, Sequence[SpecMistake]]:
    """Return the product of a wish, None where it names none or one that cannot be used, and what is wrong with it."""
    source = wish.spec.playbooks.product if wish is not None else None
    if wish is None or source is None:
        return None, ()
    return in_config_map(cluster.get(CONFIG_MAP, source.config_map, wish.metadata.namespace), source.config_map)


def again_for(wish: ClusterDeployment | None) -> float | None:
    """Return after how many seconds the product file of a wish is read again, None where it names none."""
    return AGAIN_SECONDS if wish is not None and wish.spec.playbooks.product is not None else None

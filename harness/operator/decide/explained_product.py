"""The product file of a wish that is explained: from the same file, or from the cluster that it is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.kube.kinds.form import SpecMistake
from harness.kube.objects import dig
from harness.kube.resources import CONFIG_MAP
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.decide.product_file import FIELD, KnownProduct, in_config_map
from harness.operator.usual import open_usual
from harness.spec.lines import read_all


def product_of(
    cd: ClusterDeployment, file: Path, kubeconfig: Path | None, *, compared: bool
) -> tuple[KnownProduct | None, Sequence[SpecMistake]]:
    """Return the product, None where the wish names none or one that cannot be used, and what is wrong with it.

    Args:
        kubeconfig: of the cluster, where it is `compared` with one; None: as kubectl finds it.
    """
    source = cd.spec.playbooks.product
    if source is None:
        return None, ()
    name = source.config_map
    for document in read_all(file)[0]:
        content = document.content if isinstance(document.content, dict) else {}
        if content.get("kind") == CONFIG_MAP.kind and dig(content, "metadata", "name") == name:
            return in_config_map(content, name)
    if compared:
        return in_config_map(open_usual(kubeconfig).get(CONFIG_MAP, name, cd.metadata.namespace), name)
    said = f"ConfigMap {name} is not in {file}"
    return None, [SpecMistake(f"{FIELD}.configMap", said, "add it there, or compare with a cluster: --against")]

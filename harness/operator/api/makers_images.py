"""Images whose names at their makers' registry are not those that the playbooks make of a registry.

The playbooks name an image REGISTRY/NAME:TAG. A registry of one's own can have all of them under these names;
registry.k8s.io has CoreDNS and metrics-server one folder deeper, and no images of other makers.
https://kubernetes.io/docs/reference/setup-tools/kubeadm/kubeadm-config/#cmd-config-images-list
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.kube.kinds.form import SpecMistake
from harness.operator.api.clusterdeployment import ClusterDeployment

MAKERS = "registry.k8s.io"
ADDONS = {
    "metrics-server": ("cluster_metrics_server_image",),
    "local-path-provisioner": ("cluster_local_path_provisioner_image", "cluster_busybox_image"),
}


def unnamed_images(cd: ClusterDeployment) -> Iterator[SpecMistake]:
    """Yield the images that have to be named because the registry does not have them under the playbooks' names."""
    if cd.spec.source.registry != MAKERS:
        return
    wanted = ["cluster_coredns_image"]
    wanted += ["cluster_network_plugin_image"] if cd.spec.network.plugin == "flannel" else []
    wanted += [variable for addon in cd.spec.addons for variable in ADDONS.get(addon.name, ())]
    for variable in wanted:
        if not cd.spec.variables.get(variable):
            message = f"{MAKERS} has no image of the name that {variable} has by default"
            remedy = "set it to the image's name with its tag, or use a registry that has all images under one path"
            yield SpecMistake(f"spec.variables.{variable}", message, remedy)

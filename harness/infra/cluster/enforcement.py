"""Whether a cluster's network plugin enforces NetworkPolicies, as far as its API groups and images tell."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from harness.infra.cluster.trial_images import repository
from harness.infra.findings import Finding

GROUPS = {
    "crd.projectcalico.org": "Calico",
    "cilium.io": "Cilium",
    "crd.antrea.io": "Antrea",
    "k8s.ovn.org": "OVN-Kubernetes",
    "kubeovn.io": "Kube-OVN",
    "networking.k8s.aws": "AWS VPC with its policy agent",
}
IMAGES = {"kube-router": True, "weave-npc": True, "flannel": False}
KINDNET = "kindnetd"
# kind's pull request 3612 was merged then and released in 0.24: https://github.com/kubernetes-sigs/kind/issues/842
KINDNET_SINCE = 20240723


@dataclass(frozen=True)
class Known:
    """What is known of a plugin: its name, and whether it enforces policies (None: nobody knows)."""

    name: str = "the network plugin"
    enforces: bool | None = None


def known(groups: Collection[str], images: Collection[str]) -> Known:
    """Tell what is known of the plugin of a cluster that serves these API groups and has these images on its nodes."""
    for group, name in GROUPS.items():
        if group in groups:
            return Known(name, enforces=True)
    for image in sorted(images):
        name = repository(image).rpartition("/")[2]
        if name == KINDNET and (made := re.search(r":v(\d{8})-", image)):
            return Known("kindnet", enforces=int(made[1]) >= KINDNET_SINCE)
        if name in IMAGES:
            return Known(name, IMAGES[name])
    return Known()


def check_enforcement(plugin: Known, tried: bool | None, why: str) -> Iterator[Finding]:
    """Yield that cells are not isolated, or that nobody knows.

    Args:
        tried: what a dry run showed.
        why: why it showed nothing.
    """
    if tried or (tried is None and plugin.enforces):
        return
    if tried is False or plugin.enforces is False:
        how = "a dry run with two pods showed it" if tried is False else f"{plugin.name} is known not to"
        yield Finding(
            f"NetworkPolicies are not enforced ({how})",
            "machines reach those of other cells and everything else in the cluster",
            "use a network plugin that enforces them (Calico, Cilium, Antrea), or let only one project's cells in",
            fatal=False,
        )
    else:
        yield Finding(
            f"not checked whether NetworkPolicies are enforced ({why})",
            "without it, machines reach those of other cells and everything else in the cluster",
            "see docs/infrastructure.md, Isolation",
            fatal=False,
        )

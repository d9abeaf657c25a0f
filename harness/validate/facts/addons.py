"""The optional add-ons: a cell has one when its variables name its version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.model import Cell
from harness.spec.models.facts import ENFORCES_POLICIES


@dataclass(frozen=True)
class AddOn:
    """An add-on: the variable that names its version, its Deployment if it has one, and the repository of its image.

    daemon_set: the DaemonSet that it has on every node.  ports: what that opens on nodes to others.
    """

    variable: str
    deployment: tuple[str, str] | None
    image: str
    daemon_set: tuple[str, str] | None = None
    ports: tuple[int, ...] = ()


METRICS_SERVER = "metrics-server"
LOCAL_PATH_PROVISIONER = "local-path-provisioner"
METALLB = "metallb"
KUBE_ROUTER = "kube-router"
TRAEFIK = "traefik"
ADD_ONS: Mapping[str, AddOn] = {
    METRICS_SERVER: AddOn("cluster_metrics_server_version", ("kube-system", "metrics-server"), METRICS_SERVER),
    LOCAL_PATH_PROVISIONER: AddOn(
        "cluster_local_path_provisioner_version",
        ("local-path-storage", "local-path-provisioner"),
        LOCAL_PATH_PROVISIONER,
    ),
    METALLB: AddOn(
        "cluster_metallb_version",
        ("metallb-system", "controller"),
        METALLB,
        daemon_set=("metallb-system", "speaker"),
        ports=(7946, 9120),  # speakers among each other; their metrics, to who may have them
    ),
    KUBE_ROUTER: AddOn(
        "cluster_kube_router_version",
        None,
        KUBE_ROUTER,
        daemon_set=("kube-system", "kube-router"),
        ports=(20244,),  # its health, for kubelet
    ),
    TRAEFIK: AddOn("cluster_traefik_version", None, TRAEFIK, daemon_set=("traefik", "traefik")),
}


def _sets(*variables: str) -> Callable[[Cell, int], bool]:
    """Return the condition that a cluster is there after a phase, and one of these variables is set."""
    return lambda cell, index: cell.phases[index].cluster and any(cell.phases[index].vars.get(v) for v in variables)


def asked_for(name: str) -> Callable[[Cell, int], bool]:
    """Return the condition (for the mark `when` of checks) that a cell has an add-on after a phase."""
    return _sets(ADD_ONS[name].variable)


# The same: something enforces NetworkPolicies after a phase, our add-on or, by its variable, what another product has.
enforces_policies = _sets(ADD_ONS[KUBE_ROUTER].variable, ENFORCES_POLICIES)

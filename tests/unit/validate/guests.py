"""A guest as it was recorded: one control plane, one worker, found well."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.kube.connection import ApiConnection
from harness.model import Cell, Environment, GuestCluster, Machine, Phase, PlannedMachine
from harness.paths import packaged_dir
from harness.spec.loader import load_file
from harness.spec.models import FILES
from harness.spec.models.leaves import ClusterLeaves
from harness.validate.expected import ExpectedGuest, expected_of
from harness.validate.facts.node import NodeFacts, facts_of

RECORDED = Path(__file__).parent / "recorded"
NOWHERE = ApiConnection("https://nowhere.invalid")  # for clients whose answers are given
Json = dict[str, Any]
Change = Callable[[Json], None]
VARIABLES: Json = {
    "cluster_kubernetes_version": "1.36.3",
    "cluster_container_runtime": "containerd",
    "cluster_containerd_version": "2.4.2",
    "cluster_runc_version": "1.5.2",
    "cluster_cni_plugins_version": "1.9.1",
    "cluster_etcd_version": "3.6.8",
    "cluster_coredns_version": "1.14.2",
    "cluster_flannel_version": "0.28.4",
    "cluster_network_plugin": "flannel",
    "cluster_kube_proxy_mode": "nftables",
    "cluster_pod_cidr": "10.243.0.0/16",
    "cluster_service_cidr": "10.95.0.0/16",
    "cluster_dns_domain": "cluster.local",
    "cluster_image_registry": "10.222.0.1:5000",
    "cluster_kubelet_config": {"failCgroupV1": False, "cgroupDriver": "cgroupfs"},
}


def guest(*, variables: Json | None = None, groups: tuple[tuple[str, ...], ...] | None = None) -> GuestCluster:
    """Return the recorded guest, with other variables or inventory groups if given."""
    control_plane, worker = groups or (("control_plane", "etcd"), ("node",))
    planned = (
        PlannedMachine("cp-0", control_plane, 2, 2048, 10, "debian-13"),
        PlannedMachine("w-0", worker, 2, 1536, 10, "debian-13"),
    )
    cell = Cell("cell-1", {}, "fresh", (Phase("deploy"),), planned, {})
    machines = tuple(Machine(p, f"10.222.1.{place + 2}", 22, "debian") for place, p in enumerate(planned))
    environment = Environment("abcdef", cell, 1, "ns", machines, Path("/cell"), Path("/cell/id"))
    return GuestCluster(environment, Path("/cell/kubeconfig"), VARIABLES if variables is None else variables)


OURS: ClusterLeaves = dict(load_file(packaged_dir() / "matrix" / "product.yml", FILES["product.yml"])[0])[
    "product"
].cluster


def expected(
    *,
    variables: Json | None = None,
    groups: tuple[tuple[str, ...], ...] | None = None,
    leaves: ClusterLeaves = OURS,
) -> ExpectedGuest:
    """Return what the recorded guest must look like, if its product leaves behind what it says."""
    return expected_of(guest(variables=variables, groups=groups), leaves)


def raw_facts(name: str) -> Json:
    """Return a machine's facts as the machine printed them."""
    read: Json = json.loads((RECORDED / f"facts-{name}.json").read_text(encoding="utf-8"))
    return read


def facts(change: Callable[[Json], None] | None = None, *, of: str = "cp-0") -> dict[str, NodeFacts]:
    """Return all machines' facts, those of one machine changed."""
    raw = {name: raw_facts(name) for name in ("cp-0", "w-0")}
    if change is not None:
        change(raw[of])
    return {name: facts_of(text) for name, text in raw.items()}

"""What the playbooks of a phase are given: the phase's variables, the infra's, the mirror's and the machines'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.cell.network import mirror_of, needs_internet
from harness.cell.site import Site
from harness.model import Cell, Environment, Machine, Phase
from harness.spec import product_files
from harness.spec.networks import PODS
from harness.spec.variables import ETCD_ARGS, ETCD_TIMES, merged, translated

WAY_OUT = "guest_internet"
CONTROL_PLANE, ETCD = "control_plane", "etcd"  # groups of machines
REGISTRIES = "cluster_registries"
METALLB, POOL = "cluster_metallb_version", "cluster_load_balancer_addresses"


def variables_of(site: Site, environment: Environment, phase: Phase) -> dict[str, Any]:
    """Return the variables: the run's factor, the phase's, the infra's, then what only the made machines can tell.

    Those that the product has a word for have both names.
    """
    pods = str(phase.vars.get(PODS) or "")
    mirror = mirror_of(site.mirror, phase.vars)
    made = {
        "cluster_timeout_scale": site.timeout_scale,
        **_sources(site),
        **_pool(site, environment, phase),
        **_pulls(site, environment.cell),
        **merged(phase.vars, _elections_aside(site.guest_vars, environment.cell)),
        **_way_out(site, environment),
        "cluster_mirror_url": mirror.http,
        "cluster_image_registry": mirror.registry,
        **site.product_vars(phase.vars),
        **named_machines(phase),
        "cluster_kubeconfig_path": str(environment.files.kubeconfig),
        "cluster_etcd_snapshot_path": str(environment.files.snapshot),
        "cluster_hosts": [_host(machine, pods) for machine in environment.machines],
    }
    return translated(site.product_of(environment.cell).variables, phase.vars, made)


def _host(machine: Machine, pods: str) -> dict[str, str]:
    address = machine.node_address(pods)
    ipv6 = {"ipv6_address": machine.ipv6_address} if machine.ipv6_address not in ("", address) else {}
    return {"name": machine.name, "address": address, **ipv6}


def _sources(site: Site) -> dict[str, str]:
    """Return the variable by which the product finds the folder that `{sources}` stands for in product.yml."""
    sources = site.spec.product.sources
    folder = product_files.folder(sources.model_dump(), site.project) if sources is not None else None
    return {"product_sources": str(folder)} if folder is not None else {}


def _pool(site: Site, environment: Environment, phase: Phase) -> dict[str, list[str]]:
    """Return addresses for load balancers where a cell has some; the matrix and the infra may say others."""
    if not phase.vars.get(METALLB) or not environment.machines:
        return {}
    spare = site.spare(environment.machines[0].address)
    return {POOL: list(spare)} if spare else {}


def _pulls(site: Site, cell: Cell) -> dict[str, list[dict[str, str]]]:
    """Return where machines ask for images of the registry that pods push to, where they run what was delivered."""
    if not cell.pulls_deliveries or not site.pulls:
        return {}
    return {REGISTRIES: [{"name": site.deliveries, "server": f"http://{site.pulls}"}]}


def _elections_aside(guest_vars: Mapping[str, Any], cell: Cell) -> Mapping[str, Any]:
    """Leave the infra's times of etcd's elections to cells whose etcd has several members.

    One that is alone elects itself, and at each start waits for up to twice its time before it does.
    """
    etcd = [machine for machine in cell.machines if ETCD in machine.groups]
    members = etcd or [machine for machine in cell.machines if CONTROL_PLANE in machine.groups]
    arguments = guest_vars.get(ETCD_ARGS)
    if len(members) > 1 or not isinstance(arguments, Mapping):
        return guest_vars
    return {**guest_vars, ETCD_ARGS: {k: v for k, v in arguments.items() if ETCD_TIMES.get(k) != v}}


def _way_out(site: Site, environment: Environment) -> dict[str, bool]:
    """Return whether the cell's machines may reach the internet, where the infra as such lets them."""
    if not site.guest_vars.get(WAY_OUT, False):
        return {}
    return {WAY_OUT: not site.isolated or needs_internet(site, environment.cell)}


def named_machines(phase: Phase) -> dict[str, list[str]]:
    """Return the variables by which the playbooks know the machines that leave in a phase, or were lost before it."""
    named = {"cluster_remove_nodes": list(phase.removed), "cluster_lost_nodes": list(phase.lost)}
    return {name: machines for name, machines in named.items() if machines}

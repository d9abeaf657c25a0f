"""What guest clusters on somebody else's cluster need of the playbooks: their networks, and what the user adds."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import yaml

from harness.errors import BadInput
from harness.infra.cluster.outer_network import read_outer
from harness.infra.guest_facts import VIRTUAL
from harness.kube import Cluster

POD_NETWORK, SERVICE_NETWORK = "cluster_pod_cidr", "cluster_service_cidr"
NETWORKS = {POD_NETWORK: "pod network", SERVICE_NETWORK: "service network"}
VXLAN_PORT = "cluster_vxlan_port"


def read_vars(file: Path | None) -> dict[str, Any]:
    """Return the variables of a file of the user; none without a file.

    Raises:
        BadInput: it does not exist, is not YAML or not a mapping, or a network in it is not valid.
    """
    if file is None:
        return {}
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(
            f"guest_vars: {file}: {error.strerror}", hint="set it to a YAML file of playbook variables"
        ) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        raise BadInput(f"guest_vars: {file}:{line}: not YAML: {error}", hint="fix that line") from error
    if not isinstance(found or {}, Mapping):
        raise BadInput(f"guest_vars: {file}:1: not `name: value` pairs", hint="docs/playbooks.md lists the variables")
    variables = dict(found or {})
    for name in NETWORKS:
        if name in variables:
            _refuse_no_network(file, name, variables[name])
    return variables


def _refuse_no_network(file: Path, name: str, value: object) -> None:
    try:
        ip_network(str(value))
    except ValueError as error:
        text = file.read_text(encoding="utf-8").splitlines()
        line = next((n for n, t in enumerate(text, 1) if t.lstrip().startswith(name)), 1)
        raise BadInput(f"guest_vars: {file}:{line}: {name}: {error}", hint="write it as 10.244.0.0/16") from error


def networks(product: Path, given: Mapping[str, Any]) -> dict[str, str]:
    """Return the guests' networks by what they are for: those of a file of the user, else the product's own.

    Args:
        product: the product's directory, whose group_vars/all.yml or group_vars/all/main.yml has the defaults.
        given: the user's variables.
    """
    folder = product / "group_vars"
    file = next((path for path in (folder / "all.yml", folder / "all" / "main.yml") if path.is_file()), None)
    variables = yaml.safe_load(file.read_text(encoding="utf-8")) if file is not None else {}
    both = {**(variables or {}), **given}
    return {what: str(both[name]) for name, what in NETWORKS.items() if name in both}


def variables(cluster: Cluster, given: Mapping[str, Any], outer: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the variables of guests: facts of virtual machines, a VXLAN port beside the cluster's own, the user's.

    Raises:
        ApiFailure, Unreachable: the cluster cannot be asked.
    """
    if VXLAN_PORT in given:
        return {**VIRTUAL.variables(), **given}
    return {**VIRTUAL.variables(), VXLAN_PORT: read_outer(cluster, outer).vxlan_port(), **given}

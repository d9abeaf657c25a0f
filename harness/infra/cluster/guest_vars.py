"""Variables that an infra cluster gives to guests: facts of machines, a VXLAN port, and the user's (`guest_vars`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from harness import yaml_text
from harness.errors import BadInput
from harness.files import read_text
from harness.infra.cluster.network import GUEST_NETWORKS, read_outer
from harness.infra.guest_facts import VIRTUAL
from harness.kube import Cluster
from harness.spec import lines
from harness.spec.base import VARIABLE
from harness.spec.shape import misread_scalars
from harness.spec.variables import SET_BY_THE_RUN
from harness.urls import PORTS

VXLAN_PORT = "cluster_vxlan_port"


def variables(cluster: Cluster, settings: Mapping[str, Any], outer: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the variables of guests: facts of virtual machines, a VXLAN port beside the cluster's own, the user's.

    Raises:
        ApiFailure, Unreachable: the cluster cannot be asked.
    """
    if VXLAN_PORT in settings:
        return {**VIRTUAL.variables(), **settings}
    return {**VIRTUAL.variables(), VXLAN_PORT: read_outer(cluster, outer).vxlan_port(), **settings}


def read_vars(file: Path | None) -> dict[str, Any]:
    """Return the variables of a file of the user; none without a file.

    Raises:
        BadInput: it cannot be read, is not YAML or not a mapping, or has a variable that no cell could have.
    """
    if file is None:
        return {}
    document, problems = lines.read(file)
    content = {} if document.content is None else document.content
    if not problems and not isinstance(content, Mapping):
        problems = [document.problem((), "not `name: value` pairs")]
    if not problems:
        problems = [document.problem((name,), wrong) for name, wrong in _mistakes(content)]
        problems += misread_scalars(document).values()
    if problems:
        raise BadInput(
            "guest_vars: " + "\n".join(str(problem) for problem in problems),
            hint="it is a YAML file of playbook variables; docs/playbooks.md lists them",
        )
    return dict(content)


def _mistakes(variables: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the variables that no cell could have, and why."""
    for name, value in variables.items():
        if not re.fullmatch(VARIABLE, str(name)):
            yield name, "no name of a variable: letters, digits and underscores"
        elif name in SET_BY_THE_RUN:
            yield name, f"vmatrix sets it itself: {SET_BY_THE_RUN[name]}; remove it"
        elif name in GUEST_NETWORKS:
            try:
                ip_network(str(value))
            except ValueError as error:
                yield name, f"{error}; write it as 10.244.0.0/16"
        elif name == VXLAN_PORT and not (isinstance(value, int) and value in PORTS):
            yield name, f"{value!r} is not a port"


def networks(product: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the guests' networks by what they are for: those of a file of the user, else the product's own.

    Args:
        product: the product's directory, whose group_vars/all.yml or group_vars/all/main.yml has the defaults.
        settings: the user's variables.
    """
    folder = product / "group_vars"
    file = next((path for path in (folder / "all.yml", folder / "all" / "main.yml") if path.is_file()), None)
    variables = _values(file) if file is not None else {}
    both = {**variables, **settings}
    return {what: str(both[name]) for name, what in GUEST_NETWORKS.items() if name in both}


class _Tagless(yaml_text.LOADER):  # type: ignore[misc, valid-type] # one of two
    """Reads Ansible's own tags, such as !vault, as nothing."""


_Tagless.add_multi_constructor("!", lambda *_: None)


def _values(file: Path) -> Mapping[str, Any]:
    """Return what a file of the product says in plain YAML; nothing, where only Ansible can read it."""
    try:
        document = yaml_text.document(read_text(file), file, loader=_Tagless)
    except BadInput:
        return {}
    return document if isinstance(document, Mapping) else {}

"""The groups of an inventory: ours, and beside them those that the product has names for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.machines.inventory import inventory
from harness.model import Cell, Environment, Machine, PlannedMachine
from harness.spec.models import Product

MACHINES = {"cp-0": ("control_plane", "etcd"), "w-0": ("node",), "w-1": ("node",)}


def groups(given: dict[str, Any]) -> dict[str, list[str]]:
    planned = [PlannedMachine(name, within, 1, 512, 10, "i") for name, within in MACHINES.items()]
    machines = tuple(Machine(one, "192.0.2.1", 22, "root") for one in planned)
    environment = Environment("r", Cell("c", {}, "s", (), (), {}), 1, "ns", machines, Path("d"), Path("k"))
    product = Product.model_validate(
        {"name": "p", "directory": ".", "phases": {"deploy": {"playbook": "a.yml"}}, "groups": given}
    )
    children = inventory(environment, product)["all"]["children"]
    return {name: list(group["hosts"]) for name, group in children.items()}


def test_without_names_of_the_products_own_there_are_ours_alone() -> None:
    assert groups({}) == {"control_plane": ["cp-0"], "etcd": ["cp-0"], "node": ["w-0", "w-1"]}


def test_the_products_names_stand_beside_ours_and_may_be_several_or_shared() -> None:
    found = groups({"control_plane": ["kube_control_plane", "all_k8s"], "etcd": "etcd", "node": ["workers", "all_k8s"]})
    assert found == {
        "control_plane": ["cp-0"],
        "kube_control_plane": ["cp-0"],
        "all_k8s": ["cp-0", "w-0", "w-1"],
        "etcd": ["cp-0"],
        "node": ["w-0", "w-1"],
        "workers": ["w-0", "w-1"],
    }


def test_a_product_may_have_no_name_for_a_group() -> None:
    assert groups({"control_plane": "cp", "etcd": [], "node": "node"}).keys() == {"control_plane", "cp", "etcd", "node"}

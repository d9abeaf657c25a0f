"""What a project's own checks import: conditions, waiting, and the machines as the product was given them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import checks
from harness.checks import Inventory, after, eventually
from harness.machines.inventory import inventory
from harness.model import Cell, Environment, Machine, Phase, PlannedMachine
from harness.plugin.own_checks import PUBLIC
from harness.spec.models import Product
from tests.unit.pages import ROOT

PAGE = (ROOT / "docs" / "own-checks.md").read_text(encoding="utf-8")


def test_a_condition_names_phases() -> None:
    cell = Cell("c", {}, "s", (Phase("deploy"), Phase("reset"), Phase("deploy")), (), {})
    assert [after("reset", "scale")(cell, n) for n in range(3)] == [False, True, False]


def test_what_comes_true_in_time_is_true() -> None:
    seen: list[int] = []

    def third_time() -> None:
        seen.append(1)
        assert len(seen) == 3

    eventually(third_time, seconds=30)  # never waited for in full
    assert len(seen) == 3


def test_what_stays_wrong_fails_as_the_check_said_it() -> None:
    def never() -> None:
        raise AssertionError("two nodes are missing")

    with pytest.raises(AssertionError, match="two nodes are missing"):
        eventually(never, seconds=0.1)  # short: it is waited for in full


def test_the_inventory_has_both_names_of_a_group(tmp_path: Path) -> None:
    product = Product.model_validate(
        {
            "name": "p",
            "directory": ".",
            "groups": {"node": "kube_node"},
            "phases": {"deploy": {"playbook": "site.yml"}},
        }
    )
    planned = [
        PlannedMachine("cp-0", ("control_plane", "etcd", "node"), 1, 1, 1, "i"),
        PlannedMachine("w-0", ("node",), 1, 1, 1, "i"),
    ]
    machines = tuple(Machine(one, "10.0.0.1", 22, "debian") for one in planned)
    cell = Cell("c", {}, "s", (), tuple(planned), {})
    environment = Environment("run", cell, 1, "ns", machines, tmp_path, tmp_path / "key")
    found = Inventory.of(environment, inventory(environment, product), {"a": 1})
    assert found.groups["control_plane"] == ("cp-0",)
    assert found.groups["kube_node"] == found.groups["node"] == ("cp-0", "w-0")
    assert (set(found.machines), found.variables, found.file.name) == ({"cp-0", "w-0"}, {"a": 1}, "hosts.yml")


def test_the_page_lists_the_public_fixtures_and_their_types() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| ", PAGE, re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(PUBLIC)
    assert {kind for _, kind in rows} - set(checks.__all__) == {"int"}
    assert all(hasattr(checks, name) for name in checks.__all__)

"""What the playbooks are given: the phase's variables and the infra's, mappings merged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.cell.provision import refuse_without_ipv6
from harness.cell.site import Site
from harness.cell.variables import variables_of
from harness.errors import InfraError
from harness.model import Cell, Environment, Machine, Mirror, Phase, PlannedMachine
from harness.paths import project_dir
from harness.spec import load_spec
from tests.unit.shipped_timeouts import TIMEOUTS

MACHINE = Machine(PlannedMachine("cp-0", ("control_plane",), 2, 2048, 10, "debian-13"), "10.0.7.2", 22, "debian")


def given(
    folder: Path,
    *,
    factor: float,
    isolated: bool = True,
    words: Mapping[str, str] | None = None,
    asked: Mapping[str, Any] | None = None,
    machine: Machine | None = None,
    others: tuple[Machine, ...] = (),
    phases: tuple[Phase, ...] = (),
    **infra: Any,
) -> dict[str, Any]:
    """Return what the playbooks get on a site with a factor."""
    nobody: Any = None
    spec = load_spec(project_dir() / "matrix")
    site = Site(
        cluster=nobody,
        spec=spec.model_copy(update={"product": spec.product.model_copy(update={"variables": dict(words or {})})}),
        timeouts=TIMEOUTS.scaled(factor),
        mirror=Mirror("http://m", "r:5000", Mirror("http://m6", "r6:5000")),
        guest_vars=infra,
        isolated=isolated,
        image=nobody,
        storage_class=None,
        project=folder,
        expiry_hours=1,
        timeout_scale=factor,
        deliveries="r:5001",
        pulls="r:5002",
        spare=lambda address: (f"{address.rpartition('.')[0]}.240-{address.rpartition('.')[0]}.253",),
        product_vars=lambda phase: {"cluster_files_url": f"http://m/files/{phase['a']}"},
    )
    cell = Cell("c", {}, "fresh", phases, tuple(one.planned for one in (*others, machine or MACHINE)), {})
    environment = Environment("run", cell, 1, "ns", (machine or MACHINE,), folder, folder / "key")
    return variables_of(site, environment, Phase("deploy", vars={"a": 1, **(asked or {})}))


TIMES = {"heartbeat-interval": "500", "election-timeout": "5000"}


def in_groups(name: str, *groups: str) -> Machine:
    return replace(MACHINE, planned=replace(MACHINE.planned, name=name, groups=groups))


@pytest.mark.parametrize(
    ("others", "wanted"),
    [
        ((), {}),
        ((in_groups("w-0", "node"), in_groups("etcd-0", "etcd"), in_groups("cp-1", "control_plane")), {}),
        ((in_groups("cp-1", "control_plane"),), TIMES),
        ((in_groups("etcd-0", "etcd"), in_groups("etcd-1", "etcd")), TIMES),
    ],
)
def test_the_infras_times_of_elections_are_for_an_etcd_of_several_members(
    tmp_path: Path, others: tuple[Machine, ...], wanted: Mapping[str, str]
) -> None:
    args = {"snapshot-count": "5000", **TIMES}
    found = given(tmp_path, factor=1, others=others, cluster_etcd_extra_args=args)
    assert found["cluster_etcd_extra_args"] == {"snapshot-count": "5000", **wanted}


@pytest.mark.parametrize("own", [{"election-timeout": "3000"}, None])
def test_times_of_elections_that_somebody_else_wants_are_kept(tmp_path: Path, own: Mapping[str, str] | None) -> None:
    assert given(tmp_path, factor=1, cluster_etcd_extra_args=own)["cluster_etcd_extra_args"] == own


def test_times_of_elections_that_a_cell_asks_for_are_its_own(tmp_path: Path) -> None:
    asked = {"cluster_etcd_extra_args": {"election-timeout": "2000"}}
    found = given(tmp_path, factor=1, asked=asked, cluster_etcd_extra_args=TIMES)
    assert found["cluster_etcd_extra_args"] == {"election-timeout": "2000"}


def test_a_cluster_of_ipv6_alone_has_machines_and_a_mirror_of_ipv6(tmp_path: Path) -> None:
    both = replace(MACHINE, ipv6_address="fd00::2")
    first = given(tmp_path, factor=1, machine=both, asked={"cluster_pod_cidr": "10.243.0.0/16"})
    assert first["cluster_hosts"] == [{"name": both.name, "address": both.address, "ipv6_address": "fd00::2"}]
    assert first["cluster_mirror_url"] == "http://m"
    alone = given(tmp_path, factor=1, machine=both, asked={"cluster_pod_cidr": "fd10:243::/56"})
    assert alone["cluster_hosts"] == [{"name": both.name, "address": "fd00::2"}]
    assert (alone["cluster_mirror_url"], alone["cluster_image_registry"]) == ("http://m6", "r6:5000")


def test_the_factor_of_a_run_reaches_the_playbooks_unless_the_caller_sets_another(tmp_path: Path) -> None:
    assert given(tmp_path, factor=3.0)["cluster_timeout_scale"] == 3.0
    assert given(tmp_path, factor=1.0)["cluster_timeout_scale"] == 1.0
    assert given(tmp_path, factor=3.0, cluster_timeout_scale=7)["cluster_timeout_scale"] == 7


def test_what_a_run_gives_has_the_products_names_too(tmp_path: Path) -> None:
    words = {"cluster_image_registry": "registry_host", "cluster_timeout_scale": "patience", "a": "our_a"}
    made = given(tmp_path, factor=3.0, words=words)
    assert (made["registry_host"], made["patience"], made["our_a"]) == ("r:5000", 3.0, 1)
    assert (made["cluster_image_registry"], made["a"]) == ("r:5000", 1)


def test_a_phase_is_told_where_its_products_files_are(tmp_path: Path) -> None:
    assert given(tmp_path, factor=1.0)["cluster_files_url"] == "http://m/files/1"


def test_machines_reach_the_internet_where_the_cells_policy_lets_them(tmp_path: Path) -> None:
    assert given(tmp_path, factor=1.0, guest_internet=True)["guest_internet"] is False
    assert given(tmp_path, factor=1.0, guest_internet=True, isolated=False)["guest_internet"] is True
    assert given(tmp_path, factor=1.0, guest_internet=False, isolated=False)["guest_internet"] is False


def test_a_cell_with_load_balancers_has_addresses_for_them_unless_somebody_says_others(tmp_path: Path) -> None:
    pool, metallb = "cluster_load_balancer_addresses", {"cluster_metallb_version": "1.2.3"}
    assert pool not in given(tmp_path, factor=1.0)
    assert given(tmp_path, factor=1.0, asked=metallb)[pool] == ["10.0.7.240-10.0.7.253"]
    assert given(tmp_path, factor=1.0, asked={**metallb, pool: ["a"]})[pool] == ["a"]
    assert given(tmp_path, factor=1.0, asked=metallb, cluster_load_balancer_addresses=["b"])[pool] == ["b"]


def test_machines_that_run_what_is_delivered_are_told_where_they_pull_it_from(tmp_path: Path) -> None:
    delivered = (Phase("deploy"), Phase("deliver", delivery="answers"))
    assert "cluster_registries" not in given(tmp_path, factor=1.0, phases=delivered)
    into_guest = (*delivered, Phase("deliver", delivery="answers", delivery_into="guest"))
    wanted = [{"name": "r:5001", "server": "http://r:5002"}]
    assert given(tmp_path, factor=1.0, phases=into_guest)["cluster_registries"] == wanted


def test_a_machine_tells_its_ipv6_address_where_it_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert given(tmp_path, factor=1)["cluster_hosts"] == [{"name": "cp-0", "address": "10.0.7.2"}]
    monkeypatch.setattr("tests.unit.cell.test_variables.MACHINE", replace(MACHINE, ipv6_address="fd00::2"))
    told = given(tmp_path, factor=1)["cluster_hosts"]
    assert told == [{"name": "cp-0", "address": "10.0.7.2", "ipv6_address": "fd00::2"}]


def test_a_cell_that_needs_ipv6_is_not_begun_without() -> None:
    spec = load_spec(project_dir() / "matrix")
    site: Any = SimpleNamespace(spec=spec)
    dual, single = (Cell("c", {"ip": value}, "fresh", (), (), {}) for value in ("dual", "ipv4"))
    refuse_without_ipv6(site, single, [MACHINE])
    refuse_without_ipv6(site, dual, [replace(MACHINE, ipv6_address="fd00::2")])
    with pytest.raises(InfraError, match="gave no IPv6 address to cp-0"):
        refuse_without_ipv6(site, dual, [MACHINE])

"""Amended units and limits are found."""

from __future__ import annotations

from harness.validate.findings import Unjudged
from harness.validate.judge.unit_amendments import amended_units
from tests.unit.validate import foreign, guests
from tests.unit.validate.surrounded import setups

EXPECTED = guests.expected()


def test_only_units_that_nobody_amends_pass() -> None:
    assert amended_units(setups(), EXPECTED) == []
    assert amended_units({}, EXPECTED)


def test_a_limit_of_kubelet_is_found() -> None:
    path = "/sys/fs/cgroup/system.slice/kubelet.service/cpu.max"
    (found,) = amended_units(setups(lambda raw: raw["limits"].append(["kubelet", path, "90000 100000"])), EXPECTED)
    assert str(found) == f"w-0 kubelet: expected no limit in {path}; saw 90000 100000"


def test_a_file_that_amends_a_unit_is_found() -> None:
    path = "/run/systemd/system/kubelet.service.d/x.conf"
    (found,) = amended_units(setups(lambda raw: raw["drop_ins"].update({"kubelet.service": [path]})), EXPECTED)
    assert path in str(found)


def test_units_are_not_judged_of_a_product_that_does_not_say_which_files_amend_them() -> None:
    (only,) = amended_units(setups(), guests.expected(leaves=foreign.UNSAID))
    assert isinstance(only, Unjudged)

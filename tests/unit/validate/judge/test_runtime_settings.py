"""Other settings of containerd, strange registries and wrong files of pod networks are found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.validate.judge.finding import Unjudged
from harness.validate.judge.runtime_settings import wrong_network_files, wrong_runtime_settings
from tests.unit.validate import foreign, guests
from tests.unit.validate.surrounded import VARIABLES, Change, running, setups

EXPECTED = guests.expected(variables=VARIABLES)


def config(old: str, new: str) -> Change:
    def change(raw: guests.Json) -> None:
        assert old in raw["containerd"]["config"]
        raw["containerd"]["config"] = raw["containerd"]["config"].replace(old, new)

    return change


def test_only_a_well_guest_passes() -> None:
    assert [str(one) for one in wrong_runtime_settings(running(), setups(), EXPECTED)] == []
    assert [str(one) for one in wrong_network_files(setups(), guests.facts(), EXPECTED)] == []
    assert wrong_runtime_settings({}, {}, EXPECTED)
    assert wrong_network_files({}, {}, EXPECTED)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (config("pause:3.10.2", "pause:3.9"), "sandbox image"),
        (config("SystemdCgroup = false", "SystemdCgroup = true"), "SystemdCgroup"),
        (config("/usr/local/bin/runc", "/opt/runc"), "/opt/runc"),
        (config("name = 'runc'", "name = 'other'"), "default_runtime_name"),
        (lambda raw: raw.update(containerd=None), "a running containerd"),
    ],
)
def test_another_setting_is_found(change: Change, words: str) -> None:
    (found,) = wrong_runtime_settings(running(change), setups(), EXPECTED)
    assert words in str(found)


def test_a_strange_registry_is_found() -> None:
    there = setups(lambda raw: raw["registries"].append("_default"))
    assert "/etc/containerd/certs.d/_default" in str(wrong_runtime_settings(running(), there, EXPECTED))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: raw["cni"].update({"00-other.conflist": {}}), "00-other.conflist"),
        (lambda raw: raw["cni"].update({"10-flannel.conflist": None}), "expected JSON"),
        (lambda raw: raw["cni"]["10-flannel.conflist"]["plugins"][0].update(mtu=9000), "mtu 1450, as cni0 has it"),
        (lambda raw: raw.update(cni={}), "10-flannel.conflist"),
    ],
)
def test_a_wrong_file_of_pod_networks_is_found(change: Change, words: str) -> None:
    found = wrong_network_files(setups(change), guests.facts(), EXPECTED)
    assert words in "; ".join(map(str, found))


def test_a_bridge_that_no_pod_is_on_has_the_kernels_mtu() -> None:
    facts = {name: replace(seen, mtus={**seen.mtus, "cni0": 1500}) for name, seen in guests.facts().items()}
    assert "mtu 1500, as cni0 has it" in "; ".join(map(str, wrong_network_files(setups(), facts, EXPECTED)))
    empty = setups(lambda raw: raw.update(bridged={"cni0": 0}))
    found = "; ".join(map(str, wrong_network_files(empty, facts, EXPECTED)))
    assert "w-0" not in found


def test_nothing_is_judged_of_a_product_that_says_nothing() -> None:
    (found,) = wrong_runtime_settings(running(), setups(), guests.expected(leaves=foreign.UNSAID))
    assert isinstance(found, Unjudged)

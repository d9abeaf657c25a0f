"""Other settings of containerd and strange registries are found."""

from __future__ import annotations

import pytest

from harness.validate.judge.finding import Unjudged
from harness.validate.judge.runtime_settings import wrong_runtime_settings
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
    assert wrong_runtime_settings({}, {}, EXPECTED)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (config("pause:3.10.2", "pause:3.9"), "sandbox image"),
        (config("SystemdCgroup = false", "SystemdCgroup = true"), "SystemdCgroup"),
        (config("/usr/local/bin/runc", "/opt/runc"), "/opt/runc"),
        (config("name = 'runc'", "name = 'other'"), "default_runtime_name"),
        (config("/etc/cni/net.d", "/etc/cni/other.d"), "conf_dir"),
        (lambda raw: raw.update(containerd=None), "a running containerd"),
    ],
)
def test_another_setting_is_found(change: Change, words: str) -> None:
    (found,) = wrong_runtime_settings(running(change), setups(), EXPECTED)
    assert words in str(found)


def test_a_strange_registry_is_found() -> None:
    there = setups(lambda raw: raw["registries"].append("_default"))
    assert "/etc/containerd/certs.d/_default" in str(wrong_runtime_settings(running(), there, EXPECTED))


def test_another_server_behind_the_mirrors_name_is_found() -> None:
    def change(raw: guests.Json) -> None:
        (path,) = raw["servers"]
        raw["servers"][path].append("http://192.0.2.1:5000")

    (found,) = wrong_runtime_settings(running(), setups(change), EXPECTED)
    assert "hosts.toml" in str(found)
    assert "192.0.2.1" in str(found)


def test_nothing_is_judged_of_a_product_that_says_nothing() -> None:
    (found,) = wrong_runtime_settings(running(), setups(), guests.expected(leaves=foreign.UNSAID))
    assert isinstance(found, Unjudged)

"""What is left out of a cluster's checks, and what is listed as not judged."""

from __future__ import annotations

import pytest

from harness.paths import packaged_dir
from harness.session.unsaid import DEFAULT_SUITES, MTU, NEEDED, not_judged, without
from harness.spec.left_out import fits, titles
from harness.spec.models.facts import Facts

CHECKS = [glob for globs in NEEDED.values() for glob in globs]


@pytest.mark.parametrize("glob", CHECKS)
def test_what_is_left_out_exists(glob: str) -> None:
    assert any(fits(name, glob) for name in titles(packaged_dir()))


def test_every_fact_that_checks_need_is_one() -> None:
    assert set(NEEDED) <= set(Facts().unsaid())


def test_what_is_said_is_judged() -> None:
    said = Facts(kubernetes="1.36.3", test_registry="192.0.2.1:5000")
    left = {entry.check for entry in without(said, "1.36")}
    assert not left & {*NEEDED["kubernetes"], *NEEDED["test_registry"]}
    assert set(NEEDED["kube_proxy_mode"]) <= left


def test_packets_of_the_mtu_are_judged_where_the_plugin_is_described() -> None:
    described = Facts.model_validate({"cluster": {"network_plugins": {}}})
    assert MTU in without(Facts(network_plugin="flannel"), "1.36")
    assert MTU not in without(described, "1.36")


def test_what_is_not_said_is_listed() -> None:
    lines = not_judged(Facts.model_validate({"pod_cidr": "10.244.0.0/16"}), DEFAULT_SUITES, "1.36")
    assert lines[0].startswith("kubernetes: the facts do not say it; minor and defaults are those of the API server")
    assert any(line.startswith("dns_domain: ") for line in lines)
    assert not any(line.startswith("pod_cidr") for line in lines)
    assert lines[-1] == "suite conformance: --suite conformance runs it"

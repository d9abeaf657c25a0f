"""Other settings of kube-proxy than the cell's or the ConfigMap's, and missing rules, are found."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from harness.validate.judge.proxy_settings import missing_rules, services_of, wrong_proxy_settings
from tests.unit.validate import guests
from tests.unit.validate.guests import Change
from tests.unit.validate.kept import KeptApi, Objects
from tests.unit.validate.surrounded import PROXY, running, setups

EXPECTED = guests.expected()


def kept(**settings: Any) -> KeptApi:
    """Return an API that keeps kube-proxy's settings."""
    data = {"config.conf": yaml.safe_dump({**PROXY, **settings})}

    def change(objects: Objects) -> None:
        objects["configmaps"] = [{"metadata": {"name": "kube-proxy", "namespace": "kube-system"}, "data": data}]

    return KeptApi(change)


def reports(**settings: Any) -> Change:
    body = json.dumps({"kubeproxy.config.k8s.io": {**PROXY, **settings}})
    return lambda raw: raw["kube_proxy"].update(body=body)


def test_only_a_well_guest_passes() -> None:
    assert [str(one) for one in wrong_proxy_settings(kept(), running(), EXPECTED)] == []
    assert wrong_proxy_settings(kept(), {}, EXPECTED)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"clusterCIDR": "10.9.0.0/16"}, "clusterCIDR '10.243.0.0/16'; saw '10.9.0.0/16'"),
        ({"nftables": {"masqueradeAll": True}}, "nftables.masqueradeAll False; saw True"),
    ],
)
def test_another_setting_is_found(settings: dict[str, Any], words: str) -> None:
    assert words in str([str(one) for one in wrong_proxy_settings(kept(), running(reports(**settings)), EXPECTED)])


def older(**settings: Any) -> Change:
    """Return what kube-proxy answered before 1.36: the names of its own structure."""
    internal = {
        "BindAddress": PROXY["bindAddress"],
        "ClientConnection": {"Kubeconfig": "/var/lib/kube-proxy/kubeconfig.conf"},
        "DetectLocal": {"ClusterCIDRs": ["10.243.0.0/16"]},
        "DetectLocalMode": "ClusterCIDR",
        "EnableProfiling": False,
        "Linux": {"MasqueradeAll": False, "Conntrack": {"MaxPerCore": 32768}},
        "Mode": EXPECTED.kube_proxy_mode,
        **settings,
    }
    body = json.dumps({"kubeproxy.config.k8s.io": internal})
    return lambda raw: raw["kube_proxy"].update(body=body)


def test_the_form_of_before_1_36_is_understood() -> None:
    assert [str(one) for one in wrong_proxy_settings(kept(), running(older()), EXPECTED)] == []
    for settings, words in (
        ({"DetectLocal": {"ClusterCIDRs": ["10.9.0.0/16"]}}, "clusterCIDR '10.243.0.0/16'; saw '10.9.0.0/16'"),
        ({"Linux": {"MasqueradeAll": True}}, "masqueradeAll False; saw True"),
        ({"Mode": "userspace"}, "mode"),
        ({"EnableProfiling": True}, "enableProfiling False; saw True"),
    ):
        assert words in str([str(one) for one in wrong_proxy_settings(kept(), running(older(**settings)), EXPECTED)])


def test_a_configmap_that_the_pods_do_not_obey_is_found() -> None:
    found = wrong_proxy_settings(kept(clusterCIDR="10.8.0.0/16"), running(), EXPECTED)
    assert len(found) == 2
    assert "ConfigMap kube-system/kube-proxy: '10.8.0.0/16'" in str(found[0])


def test_a_missing_rule_is_found() -> None:
    services = {("10.95.0.1", "tcp", 443), ("10.95.0.10", "udp", 53)}
    assert missing_rules(services, setups(), EXPECTED) == []
    assert missing_rules(set(), setups(), EXPECTED)
    (found,) = missing_rules(services, setups(lambda raw: raw["rules"].pop()), EXPECTED)
    assert "w-0 kube-proxy: expected a rule for 10.95.0.10 udp 53" in str(found)
    (found,) = missing_rules(services, setups(lambda raw: raw.update(rules=None)), EXPECTED)
    assert "a running kube-proxy" in str(found)


def test_services_without_an_address_need_no_rules() -> None:
    ports = [{"port": 80}, {"port": 53, "protocol": "UDP"}]
    objects = [{"spec": {"clusterIP": "10.95.0.9", "ports": ports}}, {"spec": {"clusterIP": "None", "ports": ports}}]
    assert services_of(KeptApi(lambda api: api.update(services=objects))) == {
        ("10.95.0.9", "tcp", 80),
        ("10.95.0.9", "udp", 53),
    }

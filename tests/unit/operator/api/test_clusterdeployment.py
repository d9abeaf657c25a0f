"""Defaults of objects are those of the playbooks, and the same wherever an object is read."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import yaml
from pydantic import ValidationError

from harness.operator.api.components import KubeProxySettings
from harness.operator.api.networks import ClusterNetwork
from tests.unit.operator.api.objects import SOURCE, defaulted, deployment, filled, machine
from tests.unit.pages import ROOT

VARIABLES = ROOT / "playbooks" / "group_vars" / "all"


def playbooks(file: str = "main.yml") -> dict[str, Any]:
    """Return the variables of the playbooks."""
    made: dict[str, Any] = yaml.safe_load((VARIABLES / file).read_text(encoding="utf-8"))
    return made


def test_a_network_has_the_defaults_of_the_playbooks() -> None:
    given, network = playbooks(), defaulted(deployment()).spec.network
    assert network.plugin == given["cluster_network_plugin"]
    assert network.pods == given["cluster_pod_cidr"]
    assert network.services == given["cluster_service_cidr"]
    assert network.dns_domain == given["cluster_dns_domain"]
    assert network.vxlan.port == given["cluster_vxlan_port"]
    assert network.vxlan.mtu == given["cluster_vxlan_mtu"]


def test_the_choices_are_those_of_the_playbooks() -> None:
    plugins = get_args(ClusterNetwork.model_fields["plugin"].annotation)
    assert set(plugins) == set(playbooks("network_plugins.yml")["cluster_network_plugins"])
    assert KubeProxySettings().mode == playbooks()["cluster_kube_proxy_mode"]


def test_a_filled_spec_is_the_given_one_with_more() -> None:
    spec = filled(defaulted(deployment(paused=True)))
    assert spec["paused"] is True
    assert spec["source"] == {**SOURCE, "checksums": {}, "sites": {}, "images": {}}
    assert spec["jobs"] == {"retries": 2, "deadlineSeconds": 3600, "keepFailed": 3, "keepSucceeded": 1}
    assert spec["runtime"] == {"name": "containerd", "config": {}}


def test_a_filled_spec_is_filled_already() -> None:
    cd = defaulted(deployment())
    assert filled(defaulted({**deployment(), "spec": filled(cd)})) == filled(cd)


def test_what_no_field_knows_is_refused_but_not_in_a_status() -> None:
    with pytest.raises(ValidationError, match=r"spec\.replica"):
        defaulted(deployment(replica=1))
    cd = defaulted({**deployment(), "status": {"machines": "1/2", "newer": True}})
    assert cd.status.machines == "1/2"


def test_metadata_may_have_more_than_is_read() -> None:
    obj = machine()
    obj["metadata"]["managedFields"] = []
    assert defaulted({**deployment(), "metadata": {**obj["metadata"], "uid": "u"}}).metadata.uid == "u"

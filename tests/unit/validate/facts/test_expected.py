"""What a guest must look like is read from its cell's variables."""

from __future__ import annotations

import pytest

from harness.errors import HarnessBug
from harness.spec.models.leaves import PluginLeaves
from tests.unit.validate import guests


def without(*names: str) -> guests.Json:
    return {name: value for name, value in guests.VARIABLES.items() if name not in names}


def test_a_cell_without_a_version_of_kubernetes_cannot_be_judged() -> None:
    with pytest.raises(HarnessBug, match="cluster_kubernetes_version"):
        guests.expected(variables=without("cluster_kubernetes_version"))


def test_a_version_that_no_variable_has_or_that_the_product_decides_is_unknown() -> None:
    unsaid = guests.expected(variables=without("cluster_runc_version"))
    own = guests.expected(leaves=guests.OURS.model_copy(update={"own_versions": ("runc", "container_runtime")}))
    assert (unsaid.runc, own.runc, own.runtime_version) == ("", "", "")
    assert unsaid.why_unknown("runc") == "the cell's variables have no cluster_runc_version"
    said = {own.why_unknown(of) for of in ("containerd", "runc")}
    assert said == {"the product decides it (own_versions of product.yml)"}


def test_what_a_product_says_of_a_network_plugin_wins_over_the_file() -> None:
    other = PluginLeaves(unit=None, daemon_set="kube-system/kube-flannel")
    plugin = guests.expected(leaves=guests.OURS.model_copy(update={"network_plugins": {"flannel": other}})).plugin
    assert plugin is not None
    assert (plugin.unit, plugin.daemon, plugin.tunnel) == (None, ("kube-system", "kube-flannel"), "flannel.1")

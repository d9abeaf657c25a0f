"""The product's network plugins: what is described is known, mistakes are named by file, line and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.spec import load_spec
from harness.spec.models import Gateway

TWO = """\
cluster_network_plugins:
  flat: {unit: flat.service, gateway: node, look: ip route}
  wide:
    unit: wide.path
    gateway: subnet
    look: its logs
    tunnel: wide.1
    daemon_set: wide-system/wide
    leaves: {interfaces: [wide.1]}
"""


@pytest.fixture
def described(matrix: Path) -> Path:
    """Return a matrix with two plugins, whose first version uses one of them."""
    (matrix / "network_plugins.yml").write_text(TWO, encoding="utf-8")
    change(matrix / "axes.yml", 'product_version: "1"}', 'product_version: "1", cluster_network_plugin: wide}')
    return matrix


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_plugins_are_known_by_name(described: Path) -> None:
    plugins = load_spec(described).network_plugins
    assert list(plugins) == ["flat", "wide"]
    assert plugins["wide"].daemon == ("wide-system", "wide")
    assert plugins["wide"].leaves.interfaces == ("wide.1",)
    assert (plugins["flat"].gateway, plugins["flat"].tunnel) == (Gateway.NODE, None)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("gateway: subnet", "gateway: sideways", "cluster_network_plugins.wide.gateway: "),
        ("wide-system/wide", "wide", "cluster_network_plugins.wide.daemon_set: "),
        ("tunnel:", "tunel:", "cluster_network_plugins.wide.tunel: "),
    ],
)
def test_a_mistake_is_named_by_file_and_line(described: Path, old: str, new: str, message: str) -> None:
    change(described / "network_plugins.yml", old, new)
    with pytest.raises(BadInput) as refused:
        load_spec(described)
    assert "network_plugins.yml:" in str(refused.value)
    assert message in str(refused.value)


def test_a_plugin_need_have_neither_unit_nor_routes(described: Path) -> None:
    change(described / "network_plugins.yml", "    unit: wide.path\n    gateway: subnet\n", "")
    plugin = load_spec(described).network_plugins["wide"]
    assert (plugin.unit, plugin.gateway) == (None, None)


def test_a_plugin_that_is_not_described_loses_checks_of_its_inside_only(described: Path) -> None:
    change(described / "axes.yml", "cluster_network_plugin: wide", "cluster_network_plugin: wise")
    assert "wise" not in load_spec(described).network_plugins


def test_a_plugin_that_is_not_described_is_refused_where_all_checks_are_required(described: Path) -> None:
    change(described / "axes.yml", "cluster_network_plugin: wide", "cluster_network_plugin: wise")
    change(described / "product.yml", "  phases:\n", "  checks: {require_all: true}\n  phases:\n")
    with pytest.raises(BadInput) as refused:
        load_spec(described)
    assert "axes.yml:5: " in str(refused.value)
    assert "unknown network plugin (network_plugins.yml) 'wise'" in str(refused.value)
    assert "wide" in str(refused.value)


def test_a_matrix_without_the_file_has_the_packaged_plugins(matrix: Path) -> None:
    assert not (matrix / "network_plugins.yml").exists()
    assert "flannel" in load_spec(matrix).network_plugins

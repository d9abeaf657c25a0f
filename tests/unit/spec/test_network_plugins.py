"""The product's network plugins: what is described is known, mistakes are named by file, line and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.spec import load_spec, network_plugins
from harness.spec.network_plugins import Gateway

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
    """Return a project whose product describes two plugins, and whose first version uses one of them."""
    project = matrix.parent
    product = matrix / "product.yml"
    product.write_text(product.read_text(encoding="utf-8") + "  network_plugins: plugins.yml\n", encoding="utf-8")
    (project / "playbooks" / "plugins.yml").write_text(TWO, encoding="utf-8")
    axes = matrix / "axes.yml"
    text = axes.read_text(encoding="utf-8").replace(
        'product_version: "1"}', 'product_version: "1", cluster_network_plugin: wide}'
    )
    axes.write_text(text, encoding="utf-8")
    return project


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_plugins_are_known_by_name(described: Path) -> None:
    load_spec(described / "matrix")
    plugins = network_plugins.load(described)
    assert list(plugins) == ["flat", "wide"]
    assert plugins["wide"].daemon_set == ("wide-system", "wide")
    assert plugins["wide"].leaves.interfaces == ("wide.1",)
    assert (plugins["flat"].gateway, plugins["flat"].tunnel) == (Gateway.NODE, None)


def test_a_product_may_describe_none(matrix: Path) -> None:
    load_spec(matrix)
    assert network_plugins.load(matrix.parent) == {}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("gateway: subnet", "gateway: sideways", "cluster_network_plugins.wide.gateway: "),
        ("wide-system/wide", "wide", "cluster_network_plugins.wide.daemon_set: expected NAMESPACE/NAME"),
        ("    unit: wide.path\n", "", "cluster_network_plugins.wide.unit: missing"),
        ("tunnel:", "tunel:", "cluster_network_plugins.wide.tunel: "),
    ],
)
def test_a_mistake_is_named_by_file_and_line(described: Path, old: str, new: str, message: str) -> None:
    change(described / "playbooks" / "plugins.yml", old, new)
    with pytest.raises(BadInput) as refused:
        load_spec(described / "matrix")
    assert "plugins.yml:" in str(refused.value)
    assert message in str(refused.value)
    with pytest.raises(BadInput, match=r"plugins\.yml"):
        network_plugins.load(described)


def test_a_plugin_that_is_not_described_is_refused(described: Path) -> None:
    change(described / "matrix" / "axes.yml", "cluster_network_plugin: wide", "cluster_network_plugin: wise")
    with pytest.raises(BadInput, match=r"axes\.yml:5: .*cluster_network_plugin: unknown network plugin 'wise'; .*wide"):
        load_spec(described / "matrix")


def test_a_file_that_does_not_exist_is_named(described: Path) -> None:
    (described / "playbooks" / "plugins.yml").unlink()
    with pytest.raises(BadInput, match=r"plugins\.yml:1: the file does not exist"):
        load_spec(described / "matrix")

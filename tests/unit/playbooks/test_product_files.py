"""What the product files expect of machines is what the roles write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.playbook_files import PLAYBOOKS, load

PRODUCT = Path("matrix/product.yml")
PRODUCTS = (PRODUCT, "examples/operator" / PRODUCT)
SETTINGS: dict[str, dict[str, str]] = load(PLAYBOOKS.parent / PRODUCT)["product"]["cluster"]["unit_settings"]
# Settings that systemd shows as the unit has them; those in the second row are not shown where a unit has none.
SAME = ("Type", "Restart", "KillMode", "User", "Group", "StateDirectory", "OOMPolicy")
OPTIONAL = ("PartOf", "ExecStartPost")


def cluster(product: Path) -> Any:
    return load(PLAYBOOKS.parent / product)["product"]["cluster"]


def unit(name: str) -> dict[str, list[str]]:
    """Return the settings of a unit that a role writes."""
    (path,) = (path for path in PLAYBOOKS.glob(f"roles/*/*/{name}*") if path.name in {name, f"{name}.j2"})
    found: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        key, mark, value = line.partition("=")
        if mark and key.isidentifier():
            found.setdefault(key, []).append(value)
    return found


def test_both_products_expect_the_same_of_machines() -> None:
    first, second = map(cluster, PRODUCTS)
    assert first == second


@pytest.mark.parametrize("name", SETTINGS)
def test_a_product_expects_the_settings_that_the_unit_has(name: str) -> None:
    written, expected = unit(name), SETTINGS[name]
    keys = [key for key in SAME if key in written] + [key for key in OPTIONAL if {key} & (written.keys() | expected)]
    assert {key: expected.get(key) for key in keys} == {key: " ".join(written.get(key, [])) for key in keys}
    assert ("EnvironmentFile" in written) is ("EnvironmentFiles" in expected)


def test_data_that_a_recovery_sets_aside_is_where_the_products_expect_it() -> None:
    given = load(PLAYBOOKS / "roles/etcd_restore/vars/main.yml")
    assert (given["etcd_restore_folder"], given["etcd_restore_lost"].rpartition("}")[2]) == ("/var/lib/etcd", "lost")
    for product in PRODUCTS:
        assert {"/var/lib/etcd.lost/*", "/var/lib/etcd/lost/*"} <= {*cluster(product)["secrets"]}

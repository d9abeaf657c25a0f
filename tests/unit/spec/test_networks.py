"""The networks of a cluster of both IP families are judged where they are written, before any cell is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.spec.conftest import edit, mistakes

FIRST = "cluster_pod_cidr: 10.243.0.0/16, cluster_service_cidr: 10.95.0.0/16"
SECOND = "cluster_ipv6_pod_cidr: 'fd10:243::/56', cluster_ipv6_service_cidr: 'fd10:95::/112'"


def dual(matrix: Path, second: str) -> list[str]:
    """Give the product its networks, and one value those of the second family; return what is wrong."""
    edit(matrix / "product.yml", "  vars: {", f"  vars: {{{FIRST}, ")
    edit(matrix / "axes.yml", "class: deb, image: debian}", f"class: deb, image: debian, vars: {{{second}}}}}")
    return mistakes(matrix)


def test_networks_of_both_families_that_are_apart_are_right(matrix: Path) -> None:
    assert dual(matrix, SECOND) == []


@pytest.mark.parametrize(
    ("old", "new", "field", "said"),
    [
        (
            "fd10:95::/112",
            "fd10:243:0:9::/112",
            "ipv6_service_cidr",
            "_cidr fd10:243:0:9::/112 overlap",
        ),
        (
            "fd10:243::/56",
            "fd10:243::/64",
            "ipv6_pod_cidr",
            "has no /64 for each of 2 nodes",
        ),
        ("fd10:243::/56", "fd10:243::/72", "ipv6_pod_cidr", "use a larger network, such as fd10:243::/56"),
        ("fd10:243::/56", "fd20::/40", "ipv6_pod_cidr", "fd20::/40 is too large for Kubernetes; use a /48 or smaller"),
        ("fd10:95::/112", "fd10:95::/64", "ipv6_service_cidr", "fd10:95::/64 is too large for Kubernetes"),
        ("fd10:243::/56", "10.9.0.0/16", "ipv6_pod_cidr", "10.9.0.0/16 is not a network of IPv6; write one such as"),
        ("fd10:243::/56", "fd10:243::1/56", "ipv6_pod_cidr", "has host bits set; write one such as fd10:243::/56"),
        ("'fd10:243::/56'", "[1]", "ipv6_pod_cidr", "[1] is not a network"),
        (
            ", cluster_ipv6_service_cidr: 'fd10:95::/112'",
            "",
            "ipv6_pod_cidr",
            "needs cluster_ipv6_service_cidr",
        ),
        ("cluster_ipv6_pod_cidr: 'fd10:243::/56', ", "", "ipv6_service_cidr", "needs cluster_ipv6_pod_cidr as well"),
    ],
)
def test_what_is_wrong_is_said_at_its_line(matrix: Path, old: str, new: str, field: str, said: str) -> None:
    assert old in SECOND
    (found,) = dual(matrix, SECOND.replace(old, new))
    assert found.startswith(f"axes.yml:16: axes[1].values[0].vars.cluster_{field}: ")
    assert said in found


def ipv6(matrix: Path, pods: str, services: str) -> list[str]:
    """Give one value networks in the place of the product's; return what is wrong."""
    edit(matrix / "product.yml", "  vars: {", f"  vars: {{{FIRST}, ")
    networks = f"cluster_pod_cidr: '{pods}', cluster_service_cidr: '{services}'"
    edit(matrix / "axes.yml", "class: deb, image: debian}", f"class: deb, image: debian, vars: {{{networks}}}}}")
    return mistakes(matrix)


def test_networks_of_ipv6_alone_are_right(matrix: Path) -> None:
    assert ipv6(matrix, "fd10:243::/56", "fd10:95::/112") == []


@pytest.mark.parametrize(
    ("pods", "services", "said"),
    [
        ("fd10:243::/56", "10.95.0.0/16", "cluster_service_cidr 10.95.0.0/16 are of two IP families; use one, and"),
        ("fd10:243::/64", "fd10:95::/112", "has no /64 for each of 2 nodes; use a larger"),
        ("fd10::/32", "fd10:95::/112", "fd10::/32 is too large for Kubernetes; use a /48 or smaller"),
        ("fd10:243::/56", "fd10:95::/64", "fd10:95::/64 is too large for Kubernetes; use a /108 or smaller"),
        ("fd10:243::/56", "fd10:243::/112", "overlap; choose separate networks"),
        ("fd10:243::1/56", "fd10:95::/112", "has host bits set"),
    ],
)
def test_what_is_wrong_with_ipv6_alone_is_said_once(matrix: Path, pods: str, services: str, said: str) -> None:
    (found,) = ipv6(matrix, pods, services)
    assert found.startswith("axes.yml:16: axes[1].values[0].vars.cluster_")
    assert said in found


def test_both_families_begin_with_ipv4(matrix: Path) -> None:
    edit(matrix / "product.yml", "  vars: {", f"  vars: {{{SECOND}, ")
    networks = "cluster_pod_cidr: 'fd20:243::/56', cluster_service_cidr: 'fd20:95::/112'"
    edit(matrix / "axes.yml", "class: deb, image: debian}", f"class: deb, image: debian, vars: {{{networks}}}}}")
    pods, services = mistakes(matrix)
    assert "cluster_pod_cidr: fd20:243::/56 is not a network of IPv4; write one such as 10.243.0.0/16" in pods
    assert "cluster_service_cidr: fd20:95::/112 is not a network of IPv4" in services


def test_networks_of_one_family_are_left_to_the_product(matrix: Path) -> None:
    edit(matrix / "product.yml", "  vars: {", "  vars: {cluster_pod_cidr: '{{ theirs }}', ")
    assert mistakes(matrix) == []

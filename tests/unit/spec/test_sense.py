"""A well-formed matrix that makes no sense: rules in every phase, infra profiles, the length of ids."""

from __future__ import annotations

from pathlib import Path

from tests.unit.spec.conftest import edit, mistakes


def test_a_wrong_tier_does_not_hide_what_makes_no_sense(matrix: Path) -> None:
    edit(matrix / "tiers.yml", "label: pairs", "labl: pairs")
    edit(matrix / "tiers.yml", "{version: v2, os: deb", "{version: v1, os: ubu")
    assert any("breaks a rule" in line for line in mistakes(matrix))


def test_a_pinned_cell_that_stands_twice(matrix: Path) -> None:
    edit(matrix / "tiers.yml", "fresh}\n", "fresh}\n      - {scenario: fresh, version: v2, os: deb, topology: two}\n")
    edit(matrix / "tiers.yml", "cells: 1", "cells: 2")
    assert mistakes(matrix) == ["tiers.yml:6: tiers.smoke.pinned[1]: duplicates pinned[0]; remove one"]


def test_a_rule_holds_in_every_phase(matrix: Path) -> None:
    """An upgrade to v2 begins with v1, which Ubuntu cannot have."""
    edit(
        matrix / "tiers.yml",
        "{version: v2, os: deb, topology: two, scenario: fresh}",
        "{version: v2, os: ubu, topology: two, scenario: upgrade}",
    )
    (said,) = mistakes(matrix)
    assert "v1 does not install on Ubuntu (in phase deploy of upgrade)" in said


def test_a_cell_that_no_kind_of_infra_can_run_names_what_each_lacks(matrix: Path) -> None:
    edit(matrix / "axes.yml", "class: large}", "class: large, needs: [host-kernel]}")
    edit(matrix / "tiers.yml", "os: deb, topology: two", "os: ubu, topology: two")
    assert mistakes(matrix) == [
        "tiers.yml:5: tiers.smoke.pinned[0]: no infra profile can run the cell: on here: os ubu needs internet; "
        "on there: topology two needs host-kernel; change one of its values"
    ]


def test_only_ids_of_cells_that_can_be_are_measured(matrix: Path) -> None:
    for old, new in (("slug: t2", "slug: twomachine"), ("slug: up", "slug: theupgrade"), ("id: ubu", "id: ubu-24.04")):
        edit(matrix / "axes.yml", old, new)
    edit(matrix / "axes.yml", "id: v3", "id: version-3")
    rule = "  - {if: {topology: two}, then: {scenario: {not: upgrade}}, why: two are not upgraded}"
    edit(matrix / "constraints.yml", "{os: ubu}", "{os: ubu-24.04}")
    edit(matrix / "constraints.yml", "constraints:\n", f"constraints:\n{rule}\n")
    assert mistakes(matrix) == []


def test_a_default_counts_nothing_in_an_id(matrix: Path) -> None:
    for old, new in (("slug: t2", "slug: twomachine"), ("slug: up", "slug: theupgrade"), ("id: ubu", "id: ubu-24.04")):
        edit(matrix / "axes.yml", old, new)
    edit(matrix / "axes.yml", "  - name: topology\n", "  - name: topology\n    default: two\n")
    edit(matrix / "constraints.yml", "{os: ubu}", "{os: ubu-24.04}")
    assert mistakes(matrix) == []


def test_ids_that_can_grow_too_long_name_the_slugs(matrix: Path) -> None:
    for old, new in (("slug: t2", "slug: twomachine"), ("slug: up", "slug: theupgrade"), ("id: ubu", "id: ubu-24.04")):
        edit(matrix / "axes.yml", old, new)
    edit(matrix / "axes.yml", "id: v3", "id: version-3")
    edit(matrix / "constraints.yml", "{os: ubu}", "{os: ubu-24.04}")
    (said,) = mistakes(matrix)
    assert said == (
        "axes.yml:1: axes: a cell's id can be 45 characters long, the limit is 44; use shorter slugs than "
        "version version3, os ubu2404, topology twomachine, scenario theupgrade"
    )


def test_a_machine_whose_disk_is_smaller_than_the_image_of_its_system(matrix: Path) -> None:
    edit(matrix / "topologies.yml", "memory: 1Gi, disk: 10Gi", "memory: 1Gi, disk: 9Gi")
    assert mistakes(matrix) == [
        "topologies.yml:8: topologies.two.machines[1].disk: is smaller than the disk image of deb, which has 10Gi; "
        "use 10Gi or more"
    ]


def test_a_disk_that_is_too_small_for_a_system_which_its_topology_never_has(matrix: Path) -> None:
    edit(matrix / "axes.yml", "class: large}", "class: large, needs: [host-kernel]}")
    edit(matrix / "images.yml", "user: ubuntu\n    size_gib: 10", "user: ubuntu\n    size_gib: 20")
    said = mistakes(matrix)
    assert [line.partition(": ")[0] for line in said] == ["topologies.yml:4"]
    assert "disk image of ubu, which has 20Gi" in said[0]

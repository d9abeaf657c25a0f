"""What a recipe removes from an image's root."""

from __future__ import annotations

from pathlib import Path

from harness.artifacts.disk.build import matching


def _root(folder: Path) -> Path:
    wants = folder / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True)
    (wants / "balancer.service").symlink_to("/nowhere/on/this/host/balancer.service")
    (wants / "ssh.service").write_text("")
    (folder / "var/lib/apt/lists").mkdir(parents=True)
    (folder / "var/lib/apt/lists/.hidden").write_text("")
    (folder / "var/lib/apt/lists/index").write_text("")
    return folder


def test_a_link_that_leads_nowhere_on_the_building_host_is_found_by_its_name(tmp_path: Path) -> None:
    found = matching(_root(tmp_path), "/etc/systemd/system/*.wants/balancer.service")
    assert found == [tmp_path / "etc/systemd/system/multi-user.target.wants/balancer.service"]


def test_all_that_a_folder_holds_is_found_and_nothing_beside_it(tmp_path: Path) -> None:
    found = matching(_root(tmp_path), "/var/lib/apt/lists/*")
    assert sorted(path.name for path in found) == [".hidden", "index"]


def test_a_pattern_that_fits_nothing_finds_nothing(tmp_path: Path) -> None:
    assert matching(_root(tmp_path), "/boot/*") == []

"""Where each value comes from: entries always, and below an entry what another file says."""

from __future__ import annotations

from pathlib import Path

from harness.paths import packaged_dir
from harness.spec.project import files_used, origins


def test_each_value_names_its_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "matrix").mkdir()
    (tmp_path / "vm-templates").mkdir()
    (tmp_path / "vm-templates" / "quota.yml.j2").touch()
    amending = tmp_path / "matrix" / "axes.yml"
    amending.write_text(
        "extends: default\naxes:\n  - name: os\n    values:\n      - id: debian-13\n        label: Ours\n"
        "      - {id: ours, label: New}\n",
        encoding="utf-8",
    )
    found = {one.value: (one.file, one.line) for one in origins(tmp_path)}
    packaged = packaged_dir() / "matrix"
    assert found["axes[os].values[debian-13]"] == (amending, 5)
    assert found["axes[os].values[ours]"] == (amending, 7)
    assert found["axes[os].values[debian-13].image"][0] == packaged / "axes.yml"
    assert "axes[os].values[debian-13].label" not in found, "it is where its entry is"
    assert found["axes[os].values[debian-12]"][0] == packaged / "axes.yml"
    assert found["timeouts.ssh"][0] == packaged / "timeouts.yml"
    assert found["tiers.smoke"][0] == packaged / "tiers.yml"
    assert found["vm-templates/quota.yml.j2"] == (tmp_path / "vm-templates" / "quota.yml.j2", 0)
    assert found["vm-templates/disk.yml.j2"] == (packaged_dir() / "vm-templates" / "disk.yml.j2", 0)
    line = (packaged / "tiers.yml").read_text(encoding="utf-8").splitlines()[found["tiers.smoke"][1] - 1]
    assert line == "  smoke:"


def test_files_are_the_projects_amended_or_packaged(tmp_path: Path) -> None:
    (tmp_path / "matrix").mkdir()
    (tmp_path / "matrix" / "tiers.yml").write_text("extends: default\n", encoding="utf-8")
    (tmp_path / "matrix" / "infras.yml").write_text("infras: {}\n", encoding="utf-8")
    used = dict(files_used(tmp_path))
    assert used["tiers.yml"] == f"amends the packaged one: {tmp_path / 'matrix' / 'tiers.yml'}"
    assert used["infras.yml"] == str(tmp_path / "matrix" / "infras.yml")
    assert used["axes.yml"] == "packaged"

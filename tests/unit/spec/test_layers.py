"""A project's files over the packaged ones: replaced, amended or missing; mistakes name the file that has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.artifacts.disk import catalogue
from harness.errors import BadInput
from harness.paths import PROJECT, packaged_dir
from harness.plan.lock import load_lock
from harness.spec import load_spec
from harness.spec.layers import read
from harness.spec.loader import load_timeouts
from harness.spec.models import FILES

PACKAGED = packaged_dir() / "matrix"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The matrix directory of an empty project."""
    (tmp_path / "vmatrix.yml").touch()
    (tmp_path / "matrix").mkdir()
    monkeypatch.setenv(PROJECT, str(tmp_path))
    return tmp_path / "matrix"


def amend(own: Path, file: str, text: str) -> None:
    """Write a file that amends the packaged one."""
    (own / file).write_text(f"extends: default\n{text}", encoding="utf-8")


@pytest.mark.parametrize("file", FILES)
def test_a_file_that_changes_nothing_is_the_packaged_one(own: Path, file: str) -> None:
    absent = read(own, file)
    amend(own, file, "")
    assert read(own, file)[0].content == absent[0].content
    assert load_spec(own) == load_spec(own.parent / "nowhere")


def test_values_of_several_files_are_amended(own: Path) -> None:
    amend(own, "timeouts.yml", "timeouts: {ssh: 7}\n")
    amend(own, "images.yml", "images: [{name: debian-13, size_gib: 11}]\n")
    amend(own, "topologies.yml", "topologies: {cp1-w1: {machines: [{name: w, cpus: 9}]}}\n")
    amend(own, "product.yml", "product: {name: ours, vars: {cluster_dns_domain: our.own}}\n")
    amend(own, "tiers.yml", "tiers: {full: null, nightly: {every_hours: 48}}\n")
    spec, packaged = load_spec(own), load_spec(PACKAGED)
    assert spec.timeouts == packaged.timeouts.model_copy(update={"ssh": 7})
    assert load_timeouts(own).ssh == 7
    assert catalogue.load(own / "images.yml").find("debian-13").size_gib == 11
    assert [(m.name, m.cpus) for m in spec.topologies["cp1-w1"].machines][1] == ("w", 9)
    assert spec.product.vars == {**packaged.product.vars, "cluster_dns_domain": "our.own"}
    assert (spec.product.name, spec.product.phases.keys()) == ("ours", packaged.product.phases.keys())
    assert spec.tiers.keys() == packaged.tiers.keys() - {"full"}
    assert spec.tiers["nightly"].every_hours == 48


def test_a_whole_file_replaces_the_packaged_one(own: Path) -> None:
    (own / "quarantine.yml").write_text("quarantine: []\n", encoding="utf-8")
    (own / "infras.yml").write_text("infras: {desk: {label: d, provider: embedded}}\n", encoding="utf-8")
    assert list(read(own, "infras.yml")[0].content["infras"]) == ["desk"]


def test_mistakes_name_the_file_that_has_them(own: Path) -> None:
    amend(own, "timeouts.yml", "timeouts:\n  ssh: soon\n")
    amend(own, "tiers.yml", "tiers:\n  smoke:\n    suites: [nodse]\n")
    amend(own, "topologies.yml", "topologies: {cp1-w1: null}\n")
    with pytest.raises(BadInput) as caught:
        load_spec(own)
    said = caught.value.summary
    assert f"{own / 'timeouts.yml'}:3: timeouts.ssh: " in said
    assert f"{own / 'tiers.yml'}:4: tiers.smoke.suites[0]: unknown suite" in said
    line = next(n for n, text in enumerate((PACKAGED / "axes.yml").read_text().splitlines(), 1) if "id: cp1-w1" in text)
    assert f"{PACKAGED / 'axes.yml'}:{line}: axes[5].values[1].id: unknown topology" in said
    assert f"{packaged_dir()} has is vmatrix's own: replace or amend it" in caught.value.hint


@pytest.mark.parametrize("word", ["defaults", "[default]", "null"])
def test_only_the_default_can_be_extended(own: Path, word: str) -> None:
    (own / "tiers.yml").write_text(f"tiers: {{}}\nextends: {word}\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"1 error in .*\n.*tiers\.yml:2: extends: expected `default`"):
        load_spec(own)


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("axes.yml", "axes:\n  - name: kubernetes\n    values: [{id: 1.37, label: x}]\n", "put it in quotes"),
        ("axes.yml", "axes:\n  - nmae: os\n", "has no `name`"),
        ("timeouts.yml", "timeouts:\n  ssh: 7\n  ssh: 8\n", "duplicate key"),
        ("timeouts.yml", "timeouts:\n  shh: 7\n", "unknown key; did you mean ssh?"),
        ("timeouts.yml", "tiemouts: {ssh: 7}\n", "unknown key; did you mean timeouts?"),
        ("timeouts.yml", "timeouts: [\n", "malformed YAML"),
    ],
)
def test_a_mistake_in_changes_makes_no_others(own: Path, file: str, text: str, said: str) -> None:
    amend(own, file, text)
    with pytest.raises(BadInput) as caught:
        load_spec(own)
    lines = [line for line in caught.value.summary.splitlines() if line.startswith(str(own / file))]
    assert said in lines[0]
    assert len(lines) <= 3, "of a new value, what it lacks"
    assert caught.value.summary.count(f"{PACKAGED}/") == 0


def test_a_packaged_product_lies_in_the_package_and_an_own_one_in_the_project(own: Path) -> None:
    assert Path(load_spec(own).product.directory) == packaged_dir() / "playbooks"
    amend(own, "product.yml", "product: {directory: playbooks}\n")
    with pytest.raises(BadInput, match=rf"the directory {own.parent / 'playbooks'} does not exist"):
        load_spec(own)


def test_globs_of_the_package_mean_no_file_of_the_project(own: Path) -> None:
    paths = [path for axis in load_spec(own).axes for value in axis.values for path in value.paths]
    assert any(path.startswith("matrix/") for path in paths)
    assert not any(path.startswith("playbooks/") for path in paths)
    assert any(path.startswith(f"{packaged_dir()}/playbooks/") for path in paths)


def test_a_project_without_a_lock_has_the_packaged_cells(own: Path) -> None:
    assert load_lock(own).plan == load_lock(PACKAGED).plan
    assert load_lock(own).document.file == own / "plan.lock.yml", "what is wrong is put right in the project"


def test_the_default_itself_extends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.spec.layers.packaged_dir", lambda: tmp_path)
    (tmp_path / "matrix").mkdir()
    amend(tmp_path / "matrix", "tiers.yml", "")
    assert read(tmp_path / "matrix", "tiers.yml")[0].content == {"extends": "default"}

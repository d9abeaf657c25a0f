"""Newer releases: what a module proxy lists beyond the catalogue, what belongs to one, and the diff that adds it."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from harness import proc
from harness.artifacts import upstream_releases
from harness.artifacts.catalogue import CATALOGUE, Catalogue, load, numbers
from harness.artifacts.upstream_releases import Addition, Newer
from harness.cli import app
from harness.errors import BadInput, InfraError
from harness.paths import PROJECT
from tests.unit.artifacts.conftest import Publish

ROOT = Path(__file__).resolve().parents[3]
CONSTANTS = """
	DefaultEtcdVersion = "3.9.1-0"
	CoreDNSVersion = "v1.19.2"
	PauseVersion = "3.11.0"
"""
IMAGES = """
	configs[Agnhost] = Config{list.PromoterE2eRegistry, "agnhost", "2.99.1"}
	configs[BusyBox] = Config{list.PromoterE2eRegistry, "busybox", "1.40.0-3"}
"""
PARTS = upstream_releases.ReleaseParts(
    "1.38.0", "3.9.1", "3.9.1-0", "1.19.2", "3.11.0", "2.99.1", "1.40.0-3", date(2026, 12, 16), date(2028, 2, 28)
)


def small(**kubernetes: object) -> Catalogue:
    """Return the catalogue with two modules only."""
    every = load()
    modules = {name: every.modules[name] for name in ("kubernetes", "flannel")}
    return every.model_copy(update={"modules": modules, **kubernetes})


def test_the_newest_patch_of_every_minor_and_each_later_minor(publish: Publish) -> None:
    catalogue = small()
    publish("k8s.io/kubernetes", *catalogue.kubernetes, "1.33.9", "1.36.9", "1.36.10", "1.38.0", "1.39.0-rc.1")
    publish("github.com/flannel-io/flannel", "0.28.1", "0.28.4", "0.29.1")
    last = max(catalogue.kubernetes, key=numbers)
    assert upstream_releases.find_newer(catalogue).found == (
        Newer("kubernetes", "1.36.10", "1.36.3"),
        Newer("kubernetes", "1.38.0", last),
        Newer("flannel", "0.29.1", "0.28.4"),
    )


def test_a_minor_of_kubernetes_that_was_passed_over_counts_too(publish: Publish) -> None:
    every = load().kubernetes
    catalogue = small(kubernetes={version: every[version] for version in ("1.36.3", "1.34.4")})
    publish("k8s.io/kubernetes", "1.34.4", "1.35.4", "1.36.3")
    publish("github.com/flannel-io/flannel", "0.28.4")
    assert upstream_releases.find_newer(catalogue).found == (Newer("kubernetes", "1.35.4", "1.34.4"),)


def test_a_proxy_that_lacks_a_module_is_named(publish: Publish) -> None:
    publish("k8s.io/kubernetes", "1.36.11")
    search = upstream_releases.find_newer(small())
    assert [one.version for one in search.found] == ["1.36.11"]
    assert list(search.unlisted) == ["flannel"]
    assert "flannel-io/flannel" in search.unlisted["flannel"]


def test_a_proxy_that_lists_nothing_is_no_good_news(publish: Publish) -> None:
    publish("example.com/other", "1.0.0")
    with pytest.raises(InfraError, match="lists no module"):
        upstream_releases.find_newer(small())


def test_every_module_of_the_catalogue_has_versions_to_compare() -> None:
    catalogue = load()
    without = [name for name in catalogue.modules if not upstream_releases.listed_versions(catalogue, name)]
    assert not without


def test_what_belongs_to_a_release_is_read_from_its_sources(publish: Publish) -> None:
    files = {upstream_releases.CONSTANTS: CONSTANTS, upstream_releases.IMAGES: IMAGES}
    publish("k8s.io/kubernetes", "1.38.0", files=files)
    assert upstream_releases.read_parts("1.38.0") == PARTS


def test_a_release_that_says_it_elsewhere_is_refused(publish: Publish) -> None:
    publish("k8s.io/kubernetes", "1.38.0", files={upstream_releases.CONSTANTS: "", upstream_releases.IMAGES: IMAGES})
    with pytest.raises(BadInput, match=r"constants\.go does not say DefaultEtcdVersion"):
        upstream_releases.read_parts("1.38.0")
    with pytest.raises(BadInput, match=r"no k8s\.io/kubernetes v1\.38\.7"):
        upstream_releases.read_parts("1.38.7")


@pytest.mark.parametrize("value", yaml.safe_load((ROOT / "matrix/axes.yml").read_text())["axes"][0]["values"])
def test_support_ends_where_upstream_says_within_a_day(value: dict[str, dict[str, date]]) -> None:
    days = upstream_releases.support_end(value["support"]["from"]) - value["support"]["until"]
    assert abs(days.days) <= 1


def applied(text: str, folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Apply a diff to copies of the files; return the catalogue's releases and the axis's values."""
    for name in ("harness/artifacts/catalogue.yml", "matrix/axes.yml"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text((ROOT / name).read_text())
    (folder / "new.diff").write_text(text)
    proc.run(["git", "apply", "new.diff"], cwd=folder, timeout=60)
    entries = yaml.safe_load((folder / CATALOGUE.relative_to(ROOT)).read_text())["kubernetes"]
    return entries, yaml.safe_load((folder / "matrix/axes.yml").read_text())["axes"][0]["values"]


@pytest.mark.parametrize(
    ("found", "before"),
    [
        (Newer("kubernetes", "1.38.0", "1.37.2"), {"minor": "1.37.2"}),
        (Newer("kubernetes", "1.36.9", "1.36.3"), {"patch": "1.36.3", "minor": "1.35.4"}),
        (Newer("kubernetes", "1.34.9", "1.34.4"), {"patch": "1.34.4"}),
    ],
)
def test_the_diff_adds_it_where_it_belongs(found: Newer, before: dict[str, str], tmp_path: Path) -> None:
    parts = upstream_releases.ReleaseParts(**{**vars(PARTS), "version": found.version})
    text = upstream_releases.render_diff([parts], ROOT)
    entries, values = applied(text, tmp_path)
    names = list(entries)
    assert names.index(found.version) == names.index(found.listed) - 1
    assert entries[found.version]["images"]["etcd"] == "3.9.1-0"
    (added,) = [value for value in values if value["id"] == found.version]
    assert values[values.index(added) - 1]["id"] == found.listed
    assert added["before"] == before
    assert added["vars"]["cluster_coredns_version"] == "1.19.2"
    assert added["support"] == {"from": date(2026, 12, 16), "until": date(2028, 2, 28)}


def test_several_releases_follow_each_other(tmp_path: Path) -> None:
    versions = ["1.39.1", "1.38.2", "1.37.9"]
    parts = [upstream_releases.ReleaseParts(**{**vars(PARTS), "version": version}) for version in versions]
    entries, values = applied(upstream_releases.render_diff(parts, ROOT), tmp_path)
    assert list(entries)[:4] == ["1.39.1", "1.38.2", "1.37.9", "1.37.2"]
    assert [(value["id"], value["before"]) for value in values[-3:]] == [
        ("1.37.9", {"patch": "1.37.2", "minor": "1.36.3"}),
        ("1.38.2", {"minor": "1.37.9"}),
        ("1.39.1", {"minor": "1.38.2"}),
    ]


def test_the_command_says_what_is_newer_and_whose_support_ends(
    publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROJECT, str(ROOT))
    every = load()
    files = {upstream_releases.CONSTANTS: CONSTANTS, upstream_releases.IMAGES: IMAGES}
    for name, module in every.modules.items():
        if name != "e2e-images":  # lists the releases whose whole set of specs can be run
            publish(module.requires[0], *upstream_releases.listed_versions(every, name))
    done = CliRunner().invoke(app, ["artifacts", "newer"], catch_exceptions=False)
    behind = upstream_releases.find_newer(every).found
    assert {one.module for one in behind} <= {"e2e-images"}
    assert ("nothing is newer" in done.stdout) == (not behind)
    publish("k8s.io/kubernetes", "1.38.0", files=files)
    done = CliRunner().invoke(app, ["artifacts", "newer"], catch_exceptions=False)
    assert "1.38.0" in done.stdout
    assert "kubernetes 1.34.4: support" in done.stdout
    done = CliRunner().invoke(app, ["artifacts", "newer", "--diff"], catch_exceptions=False)
    assert done.stdout.startswith("--- a/harness/artifacts/catalogue.yml")
    assert '+      - id: "1.38.0"' in done.stdout


TEXT = """\
# ours
artifacts:
  runc: # small
    "1.5.9": {sums: {github.com/opencontainers/runc: h1:x}} # newest
    # a note below

# the last word
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", upstream_releases.NEW_FILE + 'artifacts:\n  runc:\n    "1.5.3":\n      etcd: "3"\n'),
        ("artifacts: {}\n# end", 'artifacts:\n  runc:\n    "1.5.3":\n      etcd: "3"\n# end\n'),
        ("artifacts: {} # none\n# end", 'artifacts: # none\n  runc:\n    "1.5.3":\n      etcd: "3"\n# end\n'),
        ("artifacts:\n", 'artifacts:\n  runc:\n    "1.5.3":\n      etcd: "3"\n'),
        (TEXT, TEXT.replace("# newest\n", '# newest\n    "1.5.3":\n      etcd: "3"\n')),
        (
            TEXT.replace("runc:", "etcd:"),
            TEXT.replace("runc:", "etcd:").replace("# newest\n", '# newest\n  runc:\n    "1.5.3":\n      etcd: "3"\n'),
        ),
    ],
)
def test_a_version_is_added_and_all_else_stays(before: str, after: str) -> None:
    made = upstream_releases.with_versions(before, [Addition("runc", "1.5.3", {"etcd": "3"})])
    assert made == after
    assert yaml.safe_load(made)["artifacts"]["runc"]["1.5.3"] == {"etcd": "3"}


def test_a_file_in_one_line_is_not_added_to() -> None:
    with pytest.raises(BadInput, match=r"artifacts\.yml:1: the versions stand in one line"):
        upstream_releases.with_versions("artifacts: {runc: {}, x: {}}\n", [Addition("runc", "1.5.3", {})])


MAIN = {Path("main.go"): "package main\n\nfunc main() {}\n"}
RUNC = "github.com/opencontainers/runc"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty project, which this process works on."""
    project = tmp_path / "project"
    (project / "matrix").mkdir(parents=True)
    (project / "vmatrix.yml").touch()
    monkeypatch.setenv(PROJECT, str(project))
    return project


def test_a_patch_version_is_written_with_its_checksum_and_can_be_built(publish: Publish, own: Path) -> None:
    publish(RUNC, "1.5.2", "1.5.7", "1.6.0", files=MAIN)
    done = CliRunner().invoke(app, ["artifacts", "newer", "--write", "runc"], catch_exceptions=False)
    assert "written: runc 1.5.7" in done.stdout
    assert "left out: runc: 1.6.0 is of a minor that vmatrix does not have" in done.stdout
    assert 'cluster_runc_version: "1.5.7"' in done.stdout
    catalogue = load()
    assert catalogue.versions("runc") == ("1.5.2", "1.5.7")
    recipes = catalogue.program("runc").recipes("1.5.7")
    assert recipes.sums[RUNC].startswith("h1:")
    assert recipes.where == f"{own}/matrix/artifacts.yml:5: artifacts.runc.1.5.7"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("runc@1.5.99", f"has no {RUNC} v1.5.99"),
        ("runc@1.9.0", "runc@1.9.0 is not a patch version of a minor that vmatrix has of runc: 1.5"),
        ("runc@1.5", "runc@1.5 is not a patch version"),
        ("runc@1.5.2", "runc 1.5.2 is known already"),
        ("runk", "unknown program 'runk'"),
        ("pause@3.10.9", "unknown program 'pause'"),
        ("kubelet@1.36.4", "kubelet is built with all of Kubernetes"),
    ],
)
def test_what_nothing_has_is_not_written(publish: Publish, own: Path, word: str, said: str) -> None:
    publish(RUNC, "1.5.2", files=MAIN)
    raised = CliRunner().invoke(app, ["artifacts", "newer", "--write", word]).exception
    assert isinstance(raised, BadInput)
    assert said in raised.summary
    assert not (own / "matrix" / "artifacts.yml").exists()


def test_vmatrix_itself_is_not_a_project_to_write_into(publish: Publish, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROJECT, str(ROOT))
    raised = CliRunner().invoke(app, ["artifacts", "newer", "--write"]).exception
    assert isinstance(raised, BadInput)
    assert "vmatrix's own checkout" in raised.summary

"""The curated conformance lists against the real e2e.test of their minor: names, selection, images."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.artifacts.store import Store
from harness.paths import project_dir
from harness.proc import run
from harness.validate.conformance.curated import load_curated
from harness.validate.conformance.ginkgo import focus, repository_list
from harness.validate.conformance.verdicts import SPEC_PREFIX, SpecOutcome, read_verdicts

MINORS = sorted(path.stem for path in (project_dir() / "matrix" / "conformance").glob("*.yml"))
REGISTRY = "10.0.0.1:5000"
SECONDS = 120.0


def e2e_test(minor: str) -> Path:
    """Return e2e.test of the newest version of a minor that can be had."""
    store = Store()
    versions = [version for version in store.catalogue.kubernetes if version.startswith(f"{minor}.")]
    assert versions, f"there is a list for {minor} and no version of it in the catalogue of artifacts"
    newest = max(versions, key=lambda version: int(version.rpartition(".")[2]))
    return store.obtain("e2e.test", newest).file("e2e.test")


def dry_run(minor: str, report_dir: Path, *options: str) -> Path:
    report_dir.mkdir()
    fixed = ["--ginkgo.dry-run", "--ginkgo.silence-skips", "--ginkgo.no-color", "--kubeconfig=/nonexistent"]
    run([e2e_test(minor), *fixed, *options, f"--report-dir={report_dir}"], timeout=SECONDS)
    return report_dir / "junit_01.xml"


@pytest.mark.parametrize("minor", MINORS)
def test_every_curated_name_exists_once_and_is_conformance(minor: str, tmp_path: Path) -> None:
    junit = dry_run(minor, tmp_path / "all", r"--ginkgo.focus=\[Conformance\]")
    cases = ElementTree.parse(junit).iter("testcase")
    there = Counter(str(c.get("name")).removeprefix(SPEC_PREFIX) for c in cases if c.get("status") == "passed")
    counts = {spec.name: there[spec.name] for spec in load_curated(minor).specs}
    assert {name: count for name, count in counts.items() if count != 1} == {}


@pytest.mark.parametrize("minor", MINORS)
def test_focus_selects_the_curated_specs_and_no_other(minor: str, tmp_path: Path) -> None:
    names = [spec.name for spec in load_curated(minor).specs]
    junit = dry_run(minor, tmp_path / "focused", f"--ginkgo.{focus(names).removeprefix('--')}")
    assert {verdict.outcome for verdict in read_verdicts(junit, names).values()} == {SpecOutcome.PASSED}
    cases = ElementTree.parse(junit).iter("testcase")
    ran = [c.get("name") for c in cases if c.get("status") == "passed" and str(c.get("name")).startswith(SPEC_PREFIX)]
    assert len(ran) == len(names)


@pytest.mark.parametrize("minor", MINORS)
def test_every_image_is_one_that_this_minor_takes_from_the_mirror(minor: str, tmp_path: Path) -> None:
    repositories = tmp_path / "repositories.yml"
    repositories.write_text(repository_list(REGISTRY), encoding="utf-8")
    done = run([e2e_test(minor), "--list-images"], timeout=SECONDS, env={"KUBE_TEST_REPO_LIST": str(repositories)})
    listed = set(done.stdout.split())
    assert {f"{REGISTRY}/{image}" for image in load_curated(minor).images.values()} <= listed

"""What an e2e.test says of itself, and that nothing of what it writes meanwhile is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import InfraError
from harness.validate.conformance.listing import listed_images, listed_specs

LEAVES = 'touch "$TMPDIR/test-kuberc1"; mkdir -p "$HOME/.kube" "$KUBECACHEDIR/discovery"'
SPEC = (
    '[{"SpecReports": [{"LeafNodeType": "It", "LeafNodeText": "works", "ContainerHierarchyTexts": ["pods"],'
    ' "ContainerHierarchyLabels": [["Conformance"]], "LeafNodeLabels": null},'
    ' {"LeafNodeType": "ReportAfterSuite", "LeafNodeText": "x"}]}]'
)


@pytest.fixture
def e2e_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a program that lists one spec and one image, and leaves files where it may."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    made = tmp_path / "e2e.test"
    report = '"${2#--ginkgo.json-report=}"'
    made.write_text(
        f"#!/bin/sh\n{LEAVES}\n"
        f"case $1 in --list-images) echo registry.example/nginx:1 ;; *) echo '{SPEC}' >{report} ;; esac\n",
        encoding="utf-8",
    )
    made.chmod(0o755)
    return made


def test_specs_have_all_labels_around_them_and_nothing_is_left(e2e_test: Path, tmp_path: Path) -> None:
    (spec,) = listed_specs(e2e_test)
    assert (spec.name, spec.labels) == ("pods works", frozenset({"Conformance"}))
    assert list((tmp_path / "tmp").iterdir()) == []


def test_images_lose_their_registry_and_nothing_is_left(e2e_test: Path, tmp_path: Path) -> None:
    assert listed_images(e2e_test) == {"nginx:1"}
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_program_that_fails_is_the_infras_fault(e2e_test: Path) -> None:
    e2e_test.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    with pytest.raises(InfraError, match="does not list its images"):
        listed_images(e2e_test)
    with pytest.raises(InfraError, match="does not list its specs"):
        listed_specs(e2e_test)

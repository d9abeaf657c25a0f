"""Whole sets of upstream's specs: which suite runs which, what an e2e.test says of itself, and a run of a set."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from harness.artifacts.catalogue import load
from harness.errors import BadInput, InfraError
from harness.spec.suites import CERTIFICATION, E2E
from harness.validate.conformance import upstream
from harness.validate.conformance.curated import load_curated
from harness.validate.conformance.upstream import (
    TOLD,
    ListedSpec,
    SpecSet,
    WholeRun,
    as_text,
    chosen,
    differences,
    judged,
    listed_images,
    listed_specs,
    load_selection,
    load_upstream,
    properties,
    refuse_unpushed,
    unjudged,
)
from harness.validate.conformance.verdicts import SpecOutcome, SpecVerdict
from harness.validate.expected import minor_of

SPECS = (
    ListedSpec("[sig-apps] a [Conformance]", frozenset({"sig-apps", "Conformance"})),
    ListedSpec("[sig-apps] b", frozenset({"sig-apps"})),
    ListedSpec("[sig-apps] c [Slow]", frozenset({"sig-apps", "Slow"})),
    ListedSpec("[sig-network] d", frozenset({"sig-network", "Feature:LoadBalancer"})),
    ListedSpec("[sig-storage] PersistentVolumes-local e", frozenset({"sig-storage"})),
    ListedSpec("[sig-storage] CSI f", frozenset({"sig-storage"})),
    ListedSpec("[sig-cli] g", frozenset({"sig-cli"})),
    ListedSpec("[sig-node] with a private image", frozenset({"sig-node"})),
)


def test_a_suite_has_the_set_or_what_the_selection_leaves_of_features() -> None:
    sets = chosen(SPECS, load_selection())
    assert sets[CERTIFICATION] == ("[sig-apps] a [Conformance]",)
    assert sets[E2E] == ("[sig-apps] b", "[sig-storage] PersistentVolumes-local e")


def test_specs_that_need_what_machines_lack_say_so() -> None:
    names = [
        "[sig-storage] PersistentVolumes-local [Volume type: blockfswithformat] a",
        "[sig-storage] b [Volume type: dir]",
    ]
    selection = load_selection()
    assert selection.unfit(names, {"guest_loop_devices": False}) == {
        names[0]: "the machines do not have what it needs (guest_loop_devices)"
    }
    assert selection.unfit(names, {"guest_loop_devices": True}) == {}
    assert selection.unfit(names, {}) == {}, "a cluster of which nobody tells"


def test_a_spec_that_needs_what_the_cell_does_not_ask_for_is_not_run() -> None:
    selection, names = load_selection(), ["should enforce policy based on Ports [Feature:NetworkPolicy]"]
    why = "the cell does not have what it needs (cluster_kube_router_version)"
    for variables in ({}, {"cluster_kube_router_version": ""}):
        assert selection.unfit(names, variables) == {names[0]: why}
    assert selection.unfit(names, {"cluster_kube_router_version": "2.6.3"}) == {}


MINORS = sorted({minor_of(version) for version in load().kubernetes})


@pytest.mark.parametrize("minor", MINORS)
def test_the_curated_specs_of_a_minor_are_of_its_set(minor: str) -> None:
    whole = set(load_upstream(minor).of(CERTIFICATION))
    assert len(whole) > 400
    assert {spec.name for spec in load_curated(minor).specs} <= whole
    assert not whole & set(load_upstream(minor).of(E2E))


def test_a_minor_without_a_file_has_no_specs() -> None:
    assert load_upstream("0.1").of(CERTIFICATION) == ()


def test_what_is_written_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "9.99.yml"
    path.write_text(as_text("9.99", "9.99.1", chosen(SPECS, load_selection())))
    monkeypatch.setattr(upstream, "upstream_path", lambda minor: tmp_path / f"{minor}.yml")
    assert load_upstream("9.99").of(E2E) == chosen(SPECS, load_selection())[E2E]
    assert path.read_text().startswith("# ")


@pytest.mark.parametrize(
    "content",
    [
        {"kubernetes": "1.1", CERTIFICATION: ["a"]},
        {"kubernetes": "9.98", CERTIFICATION: []},
        {"kubernetes": "9.98", CERTIFICATION: ["a", "a"]},
        ["a"],
    ],
)
def test_a_file_that_does_not_fit_is_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: object
) -> None:
    (tmp_path / "9.98.yml").write_text(yaml.safe_dump(content))
    monkeypatch.setattr(upstream, "upstream_path", lambda minor: tmp_path / f"{minor}.yml")
    with pytest.raises(BadInput, match=r"9\.98\.yml is malformed") as refused:
        load_upstream("9.98")
    assert "vmatrix conformance list" in refused.value.hint


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


MISSING = {"volume/nfs:1.6.0": "its server is a part of the kernel"}


def test_all_of_the_set_is_selected_by_its_label_and_less_by_names() -> None:
    assert SpecSet(CERTIFICATION, ("a", "b"), ("b", "a")).label == "Conformance"
    assert SpecSet(CERTIFICATION, ("a", "b"), ("b",)).label == ""
    assert SpecSet(CERTIFICATION, ("a", "b"), ("b", "a"), {"a": "why"}).label == ""
    assert SpecSet(E2E, ("a", "b"), ("b", "a"), {"a": "why"}).run == ("b",)
    assert SpecSet(E2E, ("a",), ("a",)).label == ""


def test_a_spec_that_failed_without_an_image_that_is_known_to_be_missing_was_not_run() -> None:
    failed = SpecVerdict(SpecOutcome.FAILED, 300.0, "timed out", unpulled=("10.0.0.1:5000/volume/nfs:1.6.0",))
    found = judged(failed, MISSING)
    assert found.outcome is SpecOutcome.NOT_RUN
    assert unjudged(found) == "image volume/nfs:1.6.0 is missing, because its server is a part of the kernel"
    assert properties(found) == {"spec": "not-run", "seconds": 300.0}


@pytest.mark.parametrize(
    "verdict",
    [
        SpecVerdict(SpecOutcome.FAILED, 1.0, "wrong", unpulled=("10.0.0.1:5000/nginx:1",)),
        SpecVerdict(SpecOutcome.FAILED, 1.0, "wrong"),
        SpecVerdict(SpecOutcome.PASSED, 1.0, unpulled=("10.0.0.1:5000/volume/nfs:1.6.0",)),
    ],
)
def test_no_other_verdict_changes(verdict: SpecVerdict) -> None:
    assert judged(verdict, MISSING) is verdict


def test_a_spec_that_skipped_itself_is_told_in_its_own_words() -> None:
    verdict = SpecVerdict(SpecOutcome.SKIPPED, text="the spec was skipped: skipped - needs two zones")
    assert unjudged(verdict) == "skipped by the spec itself: needs two zones"
    assert unjudged(SpecVerdict(SpecOutcome.PASSED)) is None
    assert unjudged(SpecVerdict(SpecOutcome.FAILED, text="wrong")) is None


def test_a_mirror_without_what_vmatrix_makes_is_the_infras_fault() -> None:
    refuse_unpushed(WholeRun({}, ()))
    with pytest.raises(InfraError, match="the mirror lacks nginx:1"):
        refuse_unpushed(WholeRun({}, ("nginx:1",)))


def test_lists_that_differ_say_in_what_and_do_not_end_in_a_flood() -> None:
    assert differences(["a", "b"], ["b", "a"]) == []
    assert differences(["a", "b"], ["b", "c"]) == ["not in the file: c", "not in e2e.test: a"]
    assert differences([], [str(n) for n in range(100)])[TOLD:] == [f"not in the file: {100 - TOLD} more"]

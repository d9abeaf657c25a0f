"""The lists of curated specs, and what a run of them leaves."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BadInput
from harness.kube.client import Cluster
from harness.kube.failures import ApiFailure
from harness.kube.resources import NAMESPACE, POD
from harness.model import Mirror
from harness.paths import project_dir
from harness.until import Deadline
from harness.validate.conformance import curated
from harness.validate.conformance.curated import (
    CHECKS,
    ConformanceList,
    hurried,
    left_of_specs,
    load_curated,
    run_curated,
    specs_namespaces,
)
from harness.validate.conformance.ginkgo import ConformanceSpec, Tools
from tests.unit.shipped_timeouts import TIMEOUTS
from tests.unit.validate.guests import NOWHERE


def test_every_list_in_the_matrix_can_be_loaded() -> None:
    lists = sorted((project_dir() / "matrix" / "conformance").glob("*.yml"))
    assert lists
    for path in lists:
        loaded = load_curated(path.stem)
        assert all("[Conformance]" in spec.name for spec in loaded.specs)
        assert loaded.may_be_missing < {*loaded.images.values()} - {loaded.images[name] for name in CHECKS}
        assert not [spec.name for spec in loaded.specs if "[Serial]" in spec.name or "[Slow]" in spec.name]


def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    path = tmp_path / "1.99.yml"
    path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(curated, "curated_path", lambda _: path)


@pytest.mark.parametrize(
    "text",
    [
        "- not a mapping",
        "kubernetes: '1.98'\nimages: {agnhost: a:1}\nspecs: [{name: x}]",
        "kubernetes: '1.99'\nimages: {}\nspecs: [{name: x}]",
        "kubernetes: '1.99'\nimages: {agnhost: a:1}\nspecs: []",
        "kubernetes: '1.99'\nimages: {agnhost: a:1}\nspecs: [{name: x}, {name: x}]",
        "kubernetes: '1.99'\nimages: {agnhost: a:1}\nspecs: [{name: x, images: [nginx]}]",
        "kubernetes: '1.99'\nimages: {agnhost: a:1}\nspecs: [{images: [agnhost]}]",
        "kubernetes: '1.99'\nimages: {agnhost: a:1, busybox: b:1}\nmay_be_missing: [nginx]\nspecs: [{name: x}]",
        "kubernetes: '1.99'\nimages: {agnhost: a:1, busybox: b:1}\nseed: -1\nspecs: [{name: x}]",
        "kubernetes: '1.99'\nimages: {agnhost: a:1, busybox: b:1}\nseed: true\nspecs: [{name: x}]",
        "kubernetes: [",
    ],
)
def test_a_malformed_list_is_refused_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    write(tmp_path, monkeypatch, text)
    with pytest.raises(BadInput, match="malformed") as refused:
        load_curated("1.99")
    assert refused.value.paths == (tmp_path / "1.99.yml",)


def test_a_minor_without_a_list_is_refused_with_what_to_write() -> None:
    with pytest.raises(BadInput, match=r"1\.7") as refused:
        load_curated("1.7")
    assert "--list-tests" in refused.value.hint


MOMENT = "2026-11-25T00:00:00Z"


class Emptying(Cluster):
    """An API whose namespaces of specs, and whose pods, are fewer at each look."""

    def __init__(self, *looks: list[str], ending: Mapping[str, int] | None = None, whole: bool = False) -> None:
        super().__init__(NOWHERE)
        self.whole = whole  # the namespace is being deleted
        self.looks = list(looks)
        self.ending = ending or {}  # pods that are being deleted, and the seconds that they have
        self.hurried: list[tuple[str, int | None]] = []

    def list(self, resource: Any, *_: Any, labels: str = "", **__: Any) -> Any:
        if resource is NAMESPACE:
            assert labels == "e2e-framework"
            items = [{"metadata": {"name": "pods-1", **({"deletionTimestamp": MOMENT} if self.whole else {})}}]
        else:
            names = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
            items = [self._pod(name) for name in names]
        return type("Listing", (), {"items": items})

    def delete(
        self, resource: Any, name: str, namespace: str | None = None, *, grace: int | None = None, **_: Any
    ) -> bool:
        assert resource is POD
        self.hurried.append((f"{namespace}/{name}", grace))
        return True

    def _pod(self, name: str) -> dict[str, Any]:
        metadata: dict[str, Any] = {"namespace": name.partition("/")[0], "name": name[-1]}
        if name in self.ending:
            metadata |= {"deletionTimestamp": MOMENT, "deletionGracePeriodSeconds": self.ending[name]}
        return {"metadata": metadata}


def test_the_next_phase_waits_for_the_specs_pods_and_for_no_others() -> None:
    api = Emptying(["kube-system/a", "pods-1/b"], ["kube-system/a"])
    assert left_of_specs(api, Deadline.after(30)) == ""
    assert api.looks == [["kube-system/a"]]


def test_pods_of_a_spec_that_may_still_run_keep_their_time() -> None:
    ending = {"pods-1/b": 30, "pods-1/c": 1}
    api = Emptying(["pods-1/b", "pods-1/c", "pods-1/d"], [], ending=ending)
    assert left_of_specs(api, Deadline.after(30)) == ""
    assert api.hurried == []


def test_all_pods_of_a_namespace_that_is_being_deleted_are_deleted_at_once() -> None:
    ending = {"pods-1/b": 30, "pods-1/c": 1}
    api = Emptying(["kube-system/a", "pods-1/b", "pods-1/c", "pods-1/d"], [], ending=ending, whole=True)
    assert left_of_specs(api, Deadline.after(30)) == ""
    assert api.hurried == [("pods-1/b", 1), ("pods-1/d", 1)]


def test_pods_of_specs_that_stay_are_named() -> None:
    assert "left: pods-1/b" in left_of_specs(Emptying(["kube-system/a", "pods-1/b"]), Deadline.after(0))


def test_pods_of_specs_that_have_ended_are_hurried_while_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curated, "LOOK_SECONDS", 0.01)
    api = Emptying(["pods-1/b"], [], whole=True)
    with hurried(api):
        while not api.hurried:
            time.sleep(0.01)
    assert api.hurried == [("pods-1/b", 1)]


def test_an_api_that_has_trouble_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curated, "LOOK_SECONDS", 0.01)
    looks = list[str]()

    class Troubled(Emptying):
        def list(self, resource: Any, *given: Any, **more: Any) -> Any:
            looks.append(resource.plural)
            if len(looks) < 3:
                raise ApiFailure(503, "ServiceUnavailable", "starting", [], request="GET namespaces")
            return super().list(resource, *given, **more)

    api = Troubled(["pods-1/b"], [], whole=True)
    with hurried(api):
        while not api.hurried:
            time.sleep(0.01)
    assert api.hurried == [("pods-1/b", 1)]


def test_pods_of_another_run_whose_specs_let_them_stay_are_not_waited_for() -> None:
    api = Emptying(["pods-1/b"])
    assert specs_namespaces(api) == {"pods-1"}
    assert left_of_specs(api, Deadline.after(0), besides=specs_namespaces(api)) == ""


def test_namespaces_that_are_being_deleted_are_waited_for_whoever_made_them() -> None:
    assert specs_namespaces(Emptying(["pods-1/b"], whole=True)) == frozenset()


@pytest.mark.parametrize(("stays", "earlier", "left"), [(False, "", ""), (False, "pods-1", ""), (True, "", None)])
def test_only_pods_that_specs_of_this_run_deleted_are_waited_for(
    stays: bool, earlier: str, left: str | None, registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curated, "specs_namespaces", lambda _: frozenset({earlier}))
    ginkgo = tmp_path / "ginkgo"
    ginkgo.write_text(f'#!/bin/sh\necho "$@" > {shlex.quote(str(tmp_path / "said"))}\n', encoding="utf-8")
    ginkgo.chmod(0o755)
    api = Emptying(["pods-1/b"], *([] if earlier else [[]]))  # of another run, a pod stays
    found = run_curated(
        ConformanceList("1.36", {}, (ConformanceSpec("a", ()),)),
        Tools(tmp_path / "e2e.test", ginkgo, tmp_path / "kubectl"),
        api=api,
        kubeconfig=tmp_path / "k",
        mirror=Mirror("", registry),
        directory=tmp_path / "out",
        timeouts=TIMEOUTS,
        stays=stays,
    )
    assert found.left == left
    assert ("--delete-namespace=false" in (tmp_path / "said").read_text(encoding="utf-8").split()) is stays
    assert len(api.looks) == (2 if stays else 1), "looks at what is left"

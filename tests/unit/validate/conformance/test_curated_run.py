"""A run of the curated specs deletes what they made, unless the cluster goes with it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from harness.model import Mirror
from harness.validate.conformance import curated_run
from harness.validate.conformance.curated import ConformanceList, ConformanceSpec
from harness.validate.conformance.curated_run import run_curated
from harness.validate.conformance.ginkgo import Tools
from tests.unit.shipped_timeouts import TIMEOUTS
from tests.unit.validate.conformance.test_leftovers import Emptying


@pytest.mark.parametrize(("stays", "earlier", "left"), [(False, "", ""), (False, "pods-1", ""), (True, "", None)])
def test_only_pods_that_specs_of_this_run_deleted_are_waited_for(
    stays: bool, earlier: str, left: str | None, registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curated_run, "specs_namespaces", lambda _: frozenset({earlier}))
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

"""Specs that cannot run have failed or say why they were not run; their pods are waited for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from harness.errors import InfraError
from harness.kube import Cluster
from harness.kube.resources import NAMESPACE
from harness.until import Deadline
from harness.validate.conformance.curated import ConformanceSpec
from harness.validate.conformance.ginkgo import Tools
from harness.validate.conformance.run import left_of_specs, refuse_missing, run_specs
from harness.validate.conformance.verdicts import SpecOutcome
from tests.unit.shipped_timeouts import TIMEOUTS
from tests.unit.validate.guests import NOWHERE


def test_specs_without_their_images_are_not_run_and_say_which(registry: str, tmp_path: Path) -> None:
    tools = Tools(tmp_path / "absent", tmp_path / "absent", tmp_path / "absent")
    specs = [ConformanceSpec("a", ("nginx:1", "e2e-test-images/agnhost:2.63.0"))]
    verdicts = run_specs(
        specs, tools, kubeconfig=tmp_path / "k", registry=registry, directory=tmp_path / "out", timeouts=TIMEOUTS
    )
    assert verdicts["a"].outcome is SpecOutcome.NOT_RUN
    assert verdicts["a"].text == "image nginx:1 missing"
    refuse_missing(verdicts.values(), {"nginx:1"})
    with pytest.raises(InfraError, match="the mirror lacks nginx:1") as refused:
        refuse_missing(verdicts.values(), ())
    assert "may_be_missing" in refused.value.hint


def test_specs_have_failed_when_ginkgo_cannot_be_started(registry: str, tmp_path: Path) -> None:
    tools = Tools(tmp_path / "absent", tmp_path / "absent", tmp_path / "absent")
    verdicts = run_specs(
        [ConformanceSpec("a", ())],
        tools,
        kubeconfig=tmp_path / "k",
        registry=registry,
        directory=tmp_path / "out",
        timeouts=TIMEOUTS,
    )
    assert verdicts["a"].outcome is SpecOutcome.FAILED
    assert "could not be started" in verdicts["a"].text


def test_an_earlier_runs_report_is_not_taken_for_this_runs(registry: str, tmp_path: Path) -> None:
    (tmp_path / "junit_01.xml").write_text(
        "<testsuites><testcase name='[It] a' status='passed' time='1'/></testsuites>", encoding="utf-8"
    )
    tools = Tools(tmp_path / "absent", tmp_path / "absent", tmp_path / "absent")
    specs = [ConformanceSpec("a", ())]
    verdicts = run_specs(
        specs, tools, kubeconfig=tmp_path / "k", registry=registry, directory=tmp_path, timeouts=TIMEOUTS
    )
    assert verdicts["a"].outcome is SpecOutcome.FAILED


def test_files_that_specs_leave_are_gone_with_the_run(registry: str, tmp_path: Path) -> None:
    ginkgo = tmp_path / "ginkgo"
    left = 'touch "$TMPDIR/test-kuberc1"; mkdir -p "$HOME/.kube" "$KUBECACHEDIR/discovery"'
    said = 'echo "in $TMPDIR and $HOME, $KUBECACHEDIR"'
    ginkgo.write_text(f"#!/bin/sh\n{left}\n{said}\n", encoding="utf-8")
    ginkgo.chmod(0o755)
    directory = tmp_path / "out"
    tools = Tools(tmp_path / "e2e.test", ginkgo, tmp_path / "kubectl")
    specs = [ConformanceSpec("a", ())]
    run_specs(specs, tools, kubeconfig=tmp_path / "k", registry=registry, directory=directory, timeouts=TIMEOUTS)
    log = (directory / "ginkgo.log").read_text(encoding="utf-8")
    assert re.search(rf"in ({directory}/tmp-\w+) and \1, \1/kube$", log, re.MULTILINE)
    assert sorted(path.name for path in directory.iterdir()) == ["ginkgo.log", "repositories.yml"]


class Emptying(Cluster):
    """An API whose namespaces of specs, and whose pods, are fewer at each look."""

    def __init__(self, *looks: list[str]) -> None:
        super().__init__(NOWHERE)
        self.looks = list(looks)

    def list(self, resource: Any, *_: Any, labels: str = "", **__: Any) -> Any:
        if resource is NAMESPACE:
            assert labels == "e2e-framework"
            items = [{"metadata": {"name": "pods-1"}}]
        else:
            names = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
            items = [{"metadata": {"namespace": name.partition("/")[0], "name": name[-1]}} for name in names]
        return type("Listing", (), {"items": items})


def test_the_next_phase_waits_for_the_specs_pods_and_for_no_others() -> None:
    api = Emptying(["kube-system/a", "pods-1/b"], ["kube-system/a"])
    assert left_of_specs(api, Deadline.after(30)) == ""
    assert api.looks == [["kube-system/a"]]


def test_pods_of_specs_that_stay_are_named() -> None:
    assert "left: pods-1/b" in left_of_specs(Emptying(["kube-system/a", "pods-1/b"]), Deadline.after(0))

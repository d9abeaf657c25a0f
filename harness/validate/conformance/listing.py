"""What an e2e.test says of itself: its specs with their labels, and the images that its specs run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness import proc
from harness.errors import InfraError
from harness.validate.conformance.upstream import ListedSpec

SECONDS = 60.0  # a dry run takes one second
SPEC = "It"  # ginkgo's word for a node that is a spec


def listed_specs(e2e_test: Path) -> tuple[ListedSpec, ...]:
    """Return all specs of an e2e.test, by a dry run of ginkgo: no cluster is asked.

    Raises:
        InfraError: it does not run.
    """
    with TemporaryDirectory() as folder:
        report = Path(folder) / "specs.json"
        argv = ["--ginkgo.dry-run", f"--ginkgo.json-report={report}", "--ginkgo.silence-skips"]
        _asked(e2e_test, argv, folder, "specs")
        found = json.loads(report.read_text(encoding="utf-8"))
    return tuple(_specs(found))


def listed_images(e2e_test: Path) -> frozenset[str]:
    """Return the images that an e2e.test names, as repository:tag without the registry's host.

    Raises:
        InfraError: it does not run, or lists none.
    """
    with TemporaryDirectory() as folder:
        said = _asked(e2e_test, ["--list-images"], folder, "images")
    images = frozenset(line.partition("/")[2] for line in said.split() if "/" in line)
    if not images:
        raise InfraError(f"{e2e_test} --list-images lists none")
    return images


def _asked(e2e_test: Path, words: list[str], folder: str, what: str) -> str:
    """Return what it prints; even while it lists, it writes folders of its own, and these lie in the folder."""
    own = {"TMPDIR": folder, "HOME": folder, "KUBECACHEDIR": f"{folder}/kube"}
    with proc.failing_as_infra(f"{e2e_test} does not list its {what}", hint="vmatrix artifacts build e2e.test"):
        return proc.run([e2e_test, *words], timeout=SECONDS, cwd=Path(folder), env=own).stdout


def _specs(report: list[dict[str, Any]]) -> Iterator[ListedSpec]:
    for spec in (one for suite in report for one in suite["SpecReports"] or ()):
        if spec["LeafNodeType"] != SPEC:
            continue
        texts = [*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]]
        around = [label for labels in spec["ContainerHierarchyLabels"] or () for label in labels or ()]
        yield ListedSpec(" ".join(texts), frozenset([*around, *(spec["LeafNodeLabels"] or ())]))

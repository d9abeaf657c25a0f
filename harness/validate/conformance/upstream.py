"""Upstream's own specs: whole sets of them as an e2e.test lists them, a run of a set, and what each spec came to.

`vmatrix conformance list VERSION` writes matrix/conformance/upstream/<minor>.yml; the suite compares it with the
e2e.test that it runs.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from harness import proc, yaml_text
from harness.artifacts import e2e_images
from harness.artifacts.catalogue import Catalogue
from harness.errors import BadInput, InfraError
from harness.files import IndentedDumper, read_text
from harness.model import Mirror
from harness.paths import MATRIX, packaged_dir
from harness.spec.models import Timeouts
from harness.spec.project import matrix_dir
from harness.spec.suites import CERTIFICATION, E2E
from harness.validate.conformance.ginkgo import ConformanceSpec, Extent, Tools, run_specs
from harness.validate.conformance.registry import missing_images
from harness.validate.conformance.verdicts import SpecOutcome, SpecVerdict

FOLDER = "upstream"
SELECTION = "selection.yml"
CONFORMANCE = "Conformance"  # the label of the set that every cluster must pass
ASKED_FOR = "cluster_"  # how variables begin that say what a cell has
SPEC = "It"  # ginkgo's word for a node that is a spec
OUTCOME = "spec"  # a check's property: how the spec ended, in e2e.test's words and ours
SECONDS = "seconds"
OWN_WORDS = "skipped by the spec itself: "
DRY_RUN_SECONDS = 60.0  # a dry run takes one second
PROCESSES = 8  # specs mostly wait
TOLD = 10  # names in one message


@dataclass(frozen=True)
class UpstreamSets:
    """The specs of one Kubernetes minor, by the suite that runs them."""

    minor: str
    sets: Mapping[str, tuple[str, ...]]

    def of(self, suite: str) -> tuple[str, ...]:
        """Return the names of a suite's specs; none, if the minor has no such set."""
        return self.sets.get(suite, ())


def upstream_path(minor: str) -> Path:
    """Return the file of a minor's sets: the project's, or the packaged one."""
    return _file(f"{minor}.yml")


@cache
def load_upstream(minor: str) -> UpstreamSets:
    """Load the sets of a Kubernetes minor; one without a file has none.

    Raises:
        BadInput: the file is malformed.
    """
    path = upstream_path(minor)
    if not path.is_file():
        return UpstreamSets(minor, {})
    try:
        raw = yaml_text.document(read_text(path), path)
        return _sets(minor, raw)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(
            f"{path} is malformed: {type(error).__name__}: {error}",
            hint=f"`vmatrix conformance list` of a release of {minor} prints it",
            paths=[path],
        ) from error


def _sets(minor: str, raw: Any) -> UpstreamSets:
    if str(raw["kubernetes"]) != minor:
        raise ValueError(f"`kubernetes` is {raw['kubernetes']}, not {minor}")
    sets = {suite: tuple(str(name) for name in raw.get(suite) or ()) for suite in (CERTIFICATION, E2E)}
    for suite, names in sets.items():
        if len(set(names)) < len(names):
            raise ValueError(f"`{suite}` names a spec twice")
    if not sets[CERTIFICATION]:
        raise ValueError(f"`{CERTIFICATION}` is empty")
    return UpstreamSets(minor, sets)


def _file(name: str) -> Path:
    folders = (matrix_dir(), packaged_dir() / MATRIX)
    own, packaged = (folder / "conformance" / FOLDER / name for folder in folders)
    return own if own.is_file() or not packaged.is_file() else packaged


def as_text(minor: str, version: str, sets: Mapping[str, Sequence[str]]) -> str:
    """Return the file of a minor's sets, as an e2e.test of a version lists them."""
    head = (
        f"# Upstream's specs that suites run as a whole, as e2e.test {version} names them.\n"
        f"# Written by `vmatrix conformance list {version}`; selection.yml says what is in `e2e`.\n"
    )
    content = {"kubernetes": minor, **{suite: list(names) for suite, names in sets.items()}}
    return head + yaml.dump(content, Dumper=IndentedDumper, sort_keys=False, width=sys.maxsize)


@dataclass(frozen=True)
class ListedSpec:
    """One spec of e2e.test: its full name and its labels."""

    name: str
    labels: frozenset[str]


@dataclass(frozen=True)
class Selection:
    """Which specs the suite e2e runs: those of some areas, but for what needs more than a cluster on its own.

    areas: labels of SIGs -> the expression that names must match.
    without: expressions for labels, and for names, of what is left out -> why.
    needs: variables that say what machines have, or what a cell asks for -> the expression for names of specs that
        need it.
    """

    areas: Mapping[str, str]
    without_labels: Mapping[str, str]
    without_names: Mapping[str, str]
    needs: Mapping[str, str]

    def takes(self, spec: ListedSpec) -> bool:
        """Tell whether the suite runs a spec."""
        areas = [pattern for label, pattern in self.areas.items() if label in spec.labels]
        return (
            bool(areas)
            and all(re.search(pattern, spec.name) for pattern in areas)
            and not any(re.fullmatch(out, label) for out in self.without_labels for label in spec.labels)
            and not any(re.search(out, spec.name) for out in self.without_names)
        )

    def unfit(self, names: Iterable[str], variables: Mapping[str, Any]) -> dict[str, str]:
        """Return the specs that need what machines or the cell do not have, each with why.

        A fact of machines that nobody tells is true. What a cell does not ask for, it does not have.

        Args:
            variables: those of a phase.
        """
        listed = tuple(names)
        reasons: dict[str, str] = {}
        for name, pattern in self.needs.items():
            asked_for = name.startswith(ASKED_FOR)
            if not variables.get(name, not asked_for):
                why = f"{'the cell does' if asked_for else 'the machines do'} not have what it needs ({name})"
                reasons |= {spec: why for spec in listed if re.search(pattern, spec)}
        return reasons


@cache
def load_selection() -> Selection:
    """Load what the suite e2e runs.

    Raises:
        BadInput: the file does not exist or is malformed.
    """
    path = _file(SELECTION)
    try:
        raw = yaml_text.document(read_text(path), path)
        areas, labels, names = (dict(raw[key]) for key in ("areas", "without_labels", "without_names"))
        selection = Selection(areas, labels, names, dict(raw.get("needs") or {}))
        for pattern in (
            *selection.areas.values(),
            *selection.without_labels,
            *selection.without_names,
            *selection.needs.values(),
        ):
            re.compile(pattern)
    except (KeyError, TypeError, ValueError, re.error) as error:
        raise BadInput(
            f"{path} is malformed: {type(error).__name__}: {error}",
            hint="it needs `areas` (label: expression), `without_labels` and `without_names` (expression: why); "
            "it may have `needs` (variable: expression)",
            paths=[path],
        ) from error
    return selection


def chosen(listed: Iterable[ListedSpec], selection: Selection) -> dict[str, tuple[str, ...]]:
    """Return the names of each suite's specs, sorted, of all that an e2e.test lists."""
    specs = tuple(listed)
    conformance = {spec.name for spec in specs if CONFORMANCE in spec.labels}
    features = {spec.name for spec in specs if selection.takes(spec)} - conformance
    return {CERTIFICATION: tuple(sorted(conformance)), E2E: tuple(sorted(features))}


def listed_specs(e2e_test: Path) -> tuple[ListedSpec, ...]:
    """Return all specs of an e2e.test, by a dry run of ginkgo: no cluster is asked.

    Raises:
        InfraError: it does not run.
    """
    with TemporaryDirectory() as folder:
        report = Path(folder) / "specs.json"
        argv = ["--ginkgo.dry-run", f"--ginkgo.json-report={report}", "--ginkgo.silence-skips"]
        _output_of(e2e_test, argv, folder, "specs")
        suites = json.loads(report.read_text(encoding="utf-8"))
    return tuple(_specs(suites))


def _specs(report: list[dict[str, Any]]) -> Iterator[ListedSpec]:
    for spec in (entry for suite in report for entry in suite["SpecReports"] or ()):
        if spec["LeafNodeType"] != SPEC:
            continue
        texts = [*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]]
        around = [label for labels in spec["ContainerHierarchyLabels"] or () for label in labels or ()]
        yield ListedSpec(" ".join(texts), frozenset([*around, *(spec["LeafNodeLabels"] or ())]))


def listed_images(e2e_test: Path) -> frozenset[str]:
    """Return the images that an e2e.test names, as repository:tag without the registry's host.

    Raises:
        InfraError: it does not run, or lists none.
    """
    with TemporaryDirectory() as folder:
        output = _output_of(e2e_test, ["--list-images"], folder, "images")
    images = frozenset(line.partition("/")[2] for line in output.split() if "/" in line)
    if not images:
        raise InfraError(f"{e2e_test} --list-images lists none")
    return images


def _output_of(e2e_test: Path, words: list[str], folder: str, what: str) -> str:
    """Return what it prints; even while it lists, it writes folders of its own, and these lie in the folder."""
    own = {"TMPDIR": folder, "HOME": folder, "KUBECACHEDIR": f"{folder}/kube"}
    with proc.failing_as_infra(f"{e2e_test} does not list its {what}", hint="vmatrix artifacts build e2e.test"):
        return proc.run([e2e_test, *words], timeout=DRY_RUN_SECONDS, cwd=Path(folder), env=own).stdout


@dataclass(frozen=True)
class SpecSet:
    """What is run: a suite's specs as they are listed, and those of them that were selected.

    unfit: those of the latter that these machines cannot run -> why.
    """

    suite: str
    listed: Sequence[str]
    selected: Sequence[str]
    unfit: Mapping[str, str] = field(default_factory=dict)

    @property
    def run(self) -> tuple[str, ...]:
        """Return the selected specs that the machines can run."""
        return tuple(name for name in self.selected if name not in self.unfit)

    @property
    def label(self) -> str:
        """Return the label that selects just the selected specs; "" where there is none."""
        whole = self.suite == CERTIFICATION and set(self.run) == set(self.listed)
        return CONFORMANCE if whole else ""


@dataclass(frozen=True)
class WholeRun:
    """One run of a set.

    verdicts: by name.  unpushed: images that vmatrix makes and the mirror lacks.  left: pods that are still there.
    """

    verdicts: Mapping[str, SpecVerdict]
    unpushed: tuple[str, ...]
    left: str = ""


def run_whole(
    specs: SpecSet,
    tools: Tools,
    catalogue: Catalogue,
    version: str,
    *,
    kubeconfig: Path,
    mirror: Mirror,
    directory: Path,
    timeouts: Timeouts,
) -> WholeRun:
    """Run specs side by side, after them those that want to be alone, and return the verdict of each.

    A spec that failed, and whose pods asked in vain for an image that vmatrix is known not to have, was not run.

    Args:
        version: of Kubernetes.
        mirror: where the guest takes images from.
        directory: for the reports and the log.
    """
    images = e2e_images.listed(catalogue, version)
    verdicts = run_specs(
        [ConformanceSpec(name, ()) for name in specs.run],
        tools,
        kubeconfig=kubeconfig,
        mirror=mirror,
        directory=directory,
        timeouts=timeouts,
        extent=Extent(timeouts.upstream_specs, PROCESSES, specs.label),
    )
    unfit = {name: SpecVerdict(SpecOutcome.NOT_RUN, text=why) for name, why in specs.unfit.items()}
    return WholeRun(
        unfit | {name: judged(verdict, images.missing) for name, verdict in verdicts.items()},
        tuple(sorted(missing_images(mirror.registry, images.made, timeouts.registry_request))),
    )


def judged(verdict: SpecVerdict, missing: Mapping[str, str]) -> SpecVerdict:
    """Return a spec's verdict; one that failed without an image that is known to be missing was not run.

    Args:
        missing: repository:tag -> why vmatrix does not have it.
    """
    asked = (image.partition("/")[2] for image in verdict.unpulled)
    lacks = tuple(image for image in asked if image in missing)
    if verdict.outcome is not SpecOutcome.FAILED or not lacks:
        return verdict
    text = "; ".join(f"image {image} is missing, because {missing[image]}" for image in lacks)
    return replace(verdict, outcome=SpecOutcome.NOT_RUN, text=text, lacks=lacks)


def properties(verdict: SpecVerdict) -> Mapping[str, object]:
    """Return what a spec's item notes beside its outcome."""
    return {OUTCOME: verdict.outcome.value, SECONDS: round(verdict.seconds, 3)}


def unjudged(verdict: SpecVerdict) -> str | None:
    """Return why a spec says nothing about the cluster; None where it does."""
    if verdict.outcome is SpecOutcome.SKIPPED:
        return OWN_WORDS + verdict.text.removeprefix("the spec was skipped: skipped - ")
    return verdict.text if verdict.outcome is SpecOutcome.NOT_RUN else None


def refuse_unpushed(whole_run: WholeRun) -> None:
    """Refuse a mirror that lacks images which vmatrix makes.

    Raises:
        InfraError: naming them. Specs that need them have failed, and say nothing about the product.
    """
    if whole_run.unpushed:
        raise InfraError(
            f"the mirror lacks {', '.join(whole_run.unpushed)}",
            hint="a run of a tier with this suite has them; on an existing cluster, push them to the mirror",
        )


def other_specs(e2e_test: Path, minor: str, suite: str) -> list[str]:
    """Return how a suite's file differs from what e2e.test lists, in lines."""
    return differences(load_upstream(minor).of(suite), chosen(listed_specs(e2e_test), load_selection())[suite])


def other_images(e2e_test: Path, catalogue: Catalogue, version: str) -> list[str]:
    """Return how the list of a release's images differs from what e2e.test lists, in lines.

    A release whose images nobody listed has that of none: its specs' images would be missing without a word.
    """
    images = e2e_images.listed(catalogue, version)
    known = {*images.made, *images.missing} if version in e2e_images.load().lists else set()
    return differences(known, listed_images(e2e_test))


def differences(listed: Iterable[str], own: Iterable[str]) -> list[str]:
    """Return how a set's file differs from what e2e.test lists itself, in lines; none, if they are the same."""
    known, listed_now = set(listed), set(own)
    return [*_lines("not in the file", listed_now - known), *_lines("not in e2e.test", known - listed_now)]


def _lines(what: str, names: set[str]) -> list[str]:
    shown = [f"{what}: {name}" for name in sorted(names)[:TOLD]]
    return [*shown, f"{what}: {len(names) - TOLD} more"] if len(names) > TOLD else shown

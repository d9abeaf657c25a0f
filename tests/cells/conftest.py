"""The order of the suites, and the items of upstream's specs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from harness import threads
from harness.artifacts.catalogue import load as load_catalogue
from harness.errors import BadInput, VmatrixError
from harness.model import Cell, Mirror
from harness.plugin.items import deleted_after, suite_after, suite_of
from harness.plugin.state import PLAN
from harness.spec.models import Timeouts
from harness.spec.suites import CONFORMANCE, UPSTREAM
from harness.until import Deadline
from harness.validate.conformance.curated import (
    FOLDER,
    SpecRun,
    curated_path,
    left_of_specs,
    load_curated,
    run_curated,
    specs_namespaces,
)
from harness.validate.conformance.ginkgo import Tools
from harness.validate.conformance.upstream import SpecSet, WholeRun, load_selection, load_upstream, run_whole
from harness.validate.expected import minor_of
from harness.validate.findings import NotRun
from harness.validate.inspection import Inspection

# Without a tier; from cheap to expensive, and last what may change the cluster.
SUITES = (
    "delivery",
    "phases",
    "nodes",
    "cluster",
    "network",
    "hardening",
    "conformance",
    "certification",
    "e2e",
    "performance",
    "idempotence",
)
HERE = Path(__file__).parent


@functools.cache
def _spec_names(suite: str, minor: str) -> dict[str, None]:
    if suite in UPSTREAM:
        return dict.fromkeys(load_upstream(minor).of(suite))
    if not curated_path(minor).is_file():  # a plan refuses a minor without a list where the suite is asked for by name
        return {}
    return {spec.name: None for spec in load_curated(minor).specs}


def _specs_of(suite: str, cell: Cell, phase: int) -> dict[str, None]:
    """Return a suite's specs for the Kubernetes minor that a cell has after a phase."""
    return _spec_names(suite, minor_of(str(cell.phases[phase].vars["cluster_kubernetes_version"])))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out specs that nobody asked for: hundreds of items for every cell, and lists that a minor may not have."""
    suite = collection_path.name
    if suite not in (*UPSTREAM, CONFORMANCE) or collection_path.parent != HERE:
        return None
    plan = config.stash.get(PLAN, None)
    asked = plan.suites() if plan is not None else None
    if asked is None:  # all suites but those on request
        return None if suite == CONFORMANCE else True
    return None if suite in asked else True


@pytest.hookimpl(trylast=True)  # after the plugin's, so that the cell comes first in the item's name
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make an item of every spec of the selected cells' minors."""
    if "spec_name" in metafunc.fixturenames:
        suite = metafunc.definition.path.parent.name
        moments = [(cell, n) for cell in metafunc.config.stash[PLAN].cells for n in range(len(cell.phases))]
        names = list(dict.fromkeys(name for cell, phase in moments for name in _specs_of(suite, cell, phase)))
        metafunc.parametrize("spec_name", names, ids=names)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put suites in the tier's order; drop the items that pair a cell with a spec of another minor."""
    plan = config.stash.get(PLAN, None)
    named = plan.project.spec.tiers[plan.tier].suites if plan is not None and plan.tier else SUITES
    order = {suite: number for number, suite in enumerate(named)}
    items.sort(key=lambda item: order.get(suite_of(item), len(order)))
    foreign = {item for item in items if _is_foreign(item)}
    if foreign:
        items[:] = [item for item in items if item not in foreign]
        config.hook.pytest_deselected(items=list(foreign))


def _is_foreign(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function) or "spec_name" not in item.fixturenames:
        return False
    cell, phase = item.callspec.params["cell"], item.callspec.params["phase"]
    if not isinstance(cell, Cell) or not isinstance(phase, int):
        return False
    return item.callspec.params["spec_name"] not in _specs_of(suite_of(item), cell, phase)


def _selected(items: Iterable[pytest.Item], suite: str, cell: Cell, phase: int) -> dict[str, None]:
    """Return the specs of a suite that this process is to run in a cell after a phase."""
    found: dict[str, None] = {}
    for item in items:
        given = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        if suite_of(item) == suite and (given.get("cell"), given.get("phase")) == (cell, phase):
            found |= {str(given[key]): None for key in ("spec_name",) if key in given}
    return found


def _tools(artifact: Callable[[str, str], Path], version: str) -> Tools:
    """Return upstream's programs of a version of Kubernetes. Raises BadInput where there are none."""
    return Tools(*(artifact(program, version) / program for program in ("e2e.test", "ginkgo", "kubectl")))


@pytest.fixture(scope="session")
def whole_run(
    request: pytest.FixtureRequest,
    cell: Cell,
    phase: int,
    inspection: Inspection,
    mirror: Mirror,
    artifact: Callable[[str, str], Path],
    timeouts: Timeouts,
) -> Callable[[str], WholeRun]:
    """Return what runs a suite's selected specs, once."""
    version = inspection.expected.kubernetes
    try:
        tools = _tools(artifact, version)
    except BadInput as unknown:
        raise NotRun(unknown.summary) from unknown
    guest = inspection.guest

    @functools.cache
    def run(suite: str) -> WholeRun:
        selected = tuple(_selected(request.session.items, suite, cell, phase))
        listed = load_upstream(inspection.expected.minor).of(suite)
        earlier = specs_namespaces(inspection.api)
        found = run_whole(
            SpecSet(suite, listed, selected, load_selection().unfit(selected, guest.expected)),
            tools,
            load_catalogue(),
            version,
            kubeconfig=guest.kubeconfig,
            mirror=mirror,
            directory=inspection.directory / suite,
            timeouts=timeouts,
        )
        deadline = Deadline.after(timeouts.probe_remove)
        return replace(found, left=left_of_specs(inspection.api, deadline, besides=earlier))

    return run


@pytest.fixture(scope="session")
def curated_run(
    request: pytest.FixtureRequest,
    cell: Cell,
    phase: int,
    inspection: Inspection,
    mirror: Mirror,
    artifact: Callable[[str, str], Path],
    timeouts: Timeouts,
) -> Iterator[Callable[[], SpecRun]]:
    """Return what waits for the one run of the curated specs, which begins with whoever asks for this first."""
    keeps = request.config.stash[PLAN].project.settings.keeps
    stays = deleted_after(request.session.items, CONFORMANCE, cell, phase, keeps=keeps)

    def run() -> SpecRun:
        return run_curated(
            inspection.curated,
            _tools(artifact, inspection.expected.kubernetes),
            api=inspection.api,
            kubeconfig=inspection.guest.kubeconfig,
            mirror=mirror,
            directory=inspection.directory / FOLDER,
            timeouts=timeouts,
            stays=stays,
        )

    with threads.begun(run) as result:
        yield result


@pytest.fixture(scope="module")
def curated_specs_meanwhile(request: pytest.FixtureRequest, cell: Cell, phase: int) -> None:
    """Let the curated specs run beside this module's checks if they are next: both mostly wait for pods to start.

    Only for checks that look at what is theirs: specs make objects of all kinds, in namespaces of their own.
    """
    if suite_after(request.session.items, request.path.parent.name, cell, phase) == CONFORMANCE:
        with suppress(VmatrixError):  # which the checks say that need them
            request.getfixturevalue("view")  # of the cluster without them
            request.getfixturevalue("curated_run")

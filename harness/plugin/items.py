"""The items of a run: parameters from the plan, their order, and what is written down about each."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from harness.check_result import CheckResult, Finding, FindingKind, because
from harness.errors import VmatrixError
from harness.model import Outcome
from harness.plugin.own_process import Late
from harness.plugin.state import CURRENT, OWN, PLAN, cell_of, message
from harness.spec.suites import ON_REQUEST, fits

if TYPE_CHECKING:
    from harness.model import Cell
    from harness.session import RunPlan
    from harness.spec.models.leaves import ProductChecks

PROVISION, PHASE, TEARDOWN, GONE = "provision", "phase", "teardown", "gone"
AFTER_ALL = 1000  # phases
REQUIRE_ALL = "`checks: {require_all: true}`"
SETUP_SECONDS: pytest.StashKey[float] = pytest.StashKey()
NOT_JUDGED: pytest.StashKey[list[Finding]] = pytest.StashKey()  # of a check that is under way


def parametrize(metafunc: pytest.Metafunc, plan: RunPlan) -> None:
    """Give a test one item per cell; if it looks at the guest cluster, one per cell and phase that leaves one.

    A test that is marked with `when` has one per cell and phase for which its condition holds (see `arrange`).
    """
    if "phase" not in metafunc.fixturenames:
        ids = [c.id for c in plan.cells]
        metafunc.parametrize("cell", plan.cells, ids=ids, scope="session", indirect=True)
        return
    every = _marked(metafunc.definition) is not None or metafunc.definition.get_closest_marker("when") is not None
    pairs = [(c, i) for c in plan.cells for i, p in enumerate(c.phases) if every or p.cluster]
    pairs = [(c, i) for c, i in pairs if plan.after in (None, i)]
    ids = [item_id(c, i) for c, i in pairs]
    metafunc.parametrize(("cell", "phase"), pairs, ids=ids, scope="session", indirect=True)


def item_id(cell: Cell, index: int) -> str:
    """Return what stands in an item's brackets: the cell, and of a cell with several phases the stage."""
    return cell.id if len(cell.phases) == 1 else f"{cell.id}-{cell.stage(index)}"


def arrange(config: pytest.Config, items: list[pytest.Item], steps: list[pytest.Item], plan: RunPlan) -> None:
    """Leave out what the tier or the phase does not have, give each cell with a check its steps, and order them.

    A selection of steps alone is a wish to see cells come and go, and stays what it is.
    """
    suites = plan.suites()
    steps = steps if plan.after is None else []
    left_out = {i for i in items if cell_of(i) is not None and not is_step(i) and not _applies(i, suites)}
    left_out |= {i for i in items if is_step(i) and plan.after is not None}
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [i for i in items if i not in left_out]
    checked = {found.id for i in items if not is_step(i) and (found := cell_of(i)) is not None}
    if checked:
        others = [i for i in items if not is_step(i)]
        items[:] = others + [i for i in steps if (found := cell_of(i)) is not None and found.id in checked]
    position = {cell.id: number for number, cell in enumerate(plan.cells)}

    def key(entry: tuple[int, pytest.Item]) -> tuple[int, int, int, int]:
        number, item = entry
        found = cell_of(item)
        return position.get(found.id if found else "", len(position)), *_rank(item), number

    items[:] = [item for _, item in sorted(enumerate(items), key=key)]


def _applies(item: pytest.Item, suites: frozenset[str] | None) -> bool:
    """Tell whether a check is of a suite of the tier (None: of any but those on request), and for such a phase."""
    suite = suite_of(item)
    return holds(item) and (suite not in ON_REQUEST if suites is None else suite in suites)


def holds(item: pytest.Item) -> bool:
    """Tell whether a check is about such a phase as it runs after: what its mark `when` says, if it has one."""
    mark = item.get_closest_marker("when")
    cell = cell_of(item)
    return mark is None or (cell is not None and bool(mark.kwargs["phase"](cell, phase_of(item))))


def _rank(item: pytest.Item) -> tuple[int, int]:
    """Return an item's place in its cell: which phase, and in it before or among the checks."""
    step = _marked(item)
    if step == PROVISION:
        return -1, 0
    if step in (TEARDOWN, GONE):
        return AFTER_ALL, (TEARDOWN, GONE).index(step)
    return phase_of(item), 0 if step == PHASE else 1


def _marked(item: pytest.Item | Any) -> str | None:
    mark = item.get_closest_marker("step")
    return str(mark.args[0]) if mark is not None else None


def is_step(item: pytest.Item) -> bool:
    """Tell whether an item is a step of a cell's life, not a check."""
    return _marked(item) is not None


def phase_of(item: pytest.Item) -> int:
    """Return the index of the phase that an item belongs to."""
    callspec = getattr(item, "callspec", None)
    return int(callspec.params.get("phase", 0)) if callspec is not None else 0


def stage_of(item: pytest.Item) -> str:
    """Return the stage after which a check runs."""
    cell = cell_of(item)
    return cell.stage(phase_of(item)) if cell is not None else ""


def suite_of(item: pytest.Item) -> str:
    """Return the suite: the folder of tests/cells that the check lies in, or that of the project's own checks."""
    own = item.config.stash.get(OWN, None)
    return own.suite_of(item.path) if own is not None and own.is_own(item.path) else item.path.parent.name


def suite_after(items: Iterable[pytest.Item], suite: str, cell: Cell, phase: int) -> str:
    """Return the suite that is run after a suite in a cell after a phase, "" where that suite is the last one."""
    of_phase = [item for item in items if (cell_of(item), phase_of(item)) == (cell, phase) and not is_step(item)]
    suites = [suite_of(item) for item in of_phase]
    places = [place for place, name in enumerate(suites) if name == suite]
    return next(iter(suites[places[-1] + 1 :]), "") if places else ""


def deleted_after(items: Iterable[pytest.Item], suite: str, cell: Cell, phase: int, *, keeps: str) -> bool:
    """Tell whether a run that passes deletes a cell after a suite: nothing follows but the steps of its end.

    Args:
        keeps: which cells the run keeps (`Settings.keeps`).
    """
    of_cell = [item for item in items if cell_of(item) == cell]
    places = [n for n, i in enumerate(of_cell) if (suite_of(i), phase_of(i)) == (suite, phase) and not is_step(i)]
    rest = of_cell[places[-1] + 1 :] if places else []
    return keeps != "always" and bool(rest) and all(_marked(item) in (TEARDOWN, GONE) for item in rest)


def check_name(item: pytest.Item) -> str:
    """Return an item's name without its cell and stage, after the class that it is in, if there is one."""
    within = getattr(item, "cls", None)
    name, _, inner = item.name.partition("[")
    name = f"{within.__name__}::{name}" if within is not None else name
    own = inner.removesuffix("]").removeprefix(cell_part(item)).removeprefix("-")
    return f"{name}[{own}]" if own else name


def cell_part(item: pytest.Item) -> str:
    """Return what an item's brackets begin with: its cell, and its stage where it is of one; "" for a test of none."""
    cell = cell_of(item)
    if cell is None:
        return ""
    of_phase = "phase" in getattr(item, "callspec").params  # noqa: B009 - a test with a cell has it
    return item_id(cell, phase_of(item)) if of_phase else cell.id


def begins_with_cell(item: pytest.Item) -> bool:
    """Tell whether an item's brackets begin with its cell, by which reports and workers know whose it is."""
    part, inner = cell_part(item), item.name.partition("[")[2]
    return not part or inner == f"{part}]" or inner.startswith(f"{part}-")


def note_setup(item: pytest.Item, seconds: float) -> None:
    """Remember how long a check's fixtures took: what they ask of the cluster is part of the check."""
    item.stash[SETUP_SECONDS] = seconds


def check_result(item: pytest.Item, report: pytest.TestReport, error: BaseException | None) -> CheckResult:
    """Return what a check that has ended came to, as data."""
    from harness.validate.findings import CheckFailed

    unjudged = item.stash.get(NOT_JUDGED, [])
    not_judged = tuple(unjudged)
    failed = error if isinstance(error, CheckFailed) else None
    findings = (*failed.findings, *(f for f in not_judged if f not in failed.findings)) if failed else not_judged
    if report.skipped and not findings:
        findings = (because(FindingKind.NOT_RUN, _skip_reason(report)),)
    before = item.stash.get(SETUP_SECONDS, 0.0) if report.when == "call" else 0.0
    return CheckResult(
        suite=suite_of(item),
        name=check_name(item),
        stage=stage_of(item),
        outcome=Outcome.NOT_RUN if report.skipped else Outcome(report.outcome),
        seconds=report.duration + before,
        findings=findings,
        claim=failed.claim if failed else "",
        look=failed.look if failed else "",
        command=failed.command if failed else "",
        error=_error_line(error) if error is not None and report.failed and not failed else "",
        text=_error_text(report, error) if report.failed and not failed else "",
        properties=dict(report.user_properties),
    )


def _skip_reason(report: pytest.TestReport) -> str:
    text = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else report.longreprtext
    return text.removeprefix("Skipped: ")


def _error_line(error: BaseException) -> str:
    """Return what an error says in one line: an assertion speaks for itself, of others the kind counts, too."""
    if isinstance(error, VmatrixError):
        return " ".join(error.summary.split())
    line = next((line.strip() for line in text_of(error).splitlines() if line.strip()), "")
    if isinstance(error, AssertionError | pytest.fail.Exception) and line:
        return line
    return f"{type(error).__qualname__}: {line}" if line else type(error).__qualname__


def text_of(error: BaseException) -> str:
    """Return what an error says; its own code may not be able to."""
    try:
        return str(error)
    except (Exception, SystemExit, pytest.exit.Exception) as trouble:  # noqa: BLE001 - whatever the project raises
        return f"(its text cannot be had: {type(trouble).__name__})"


def asserted(error: BaseException) -> bool:
    """Tell whether a check itself has found the failure, in a group of errors all of them."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(asserted, error.exceptions))
    return isinstance(error, AssertionError | pytest.fail.Exception) and not isinstance(error, Late)


def _error_text(report: pytest.TestReport, error: BaseException | None) -> str:
    """Return an error as people read it: what it says first, then where it came from, without paths of classes."""
    text = report.longreprtext
    kinds = [type(chained) for chained in _chain(error)]
    for kind in kinds:
        text = text.replace(f"{kind.__module__}.{kind.__qualname__}", kind.__qualname__)
    return f"{message(error)}\n{text}" if isinstance(error, VmatrixError) else text


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what it was raised from, or raised while handling."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def take_up(item: pytest.Item) -> None:
    """Take note of the check that is under way, for who asks what a run is doing."""
    if cell := cell_of(item):
        item.config.stash[CURRENT] = cell.id, "" if is_step(item) else f"{suite_of(item)}: {check_name(item)}"


def leave_out(item: pytest.Item) -> None:
    """Skip a check that the product leaves out, before anything is looked up for it."""
    for entry in checks_of(item).leave_out if _is_check(item) else ():
        if fits(f"{suite_of(item)}: {check_name(item)}", entry.check):
            item.stash[NOT_JUDGED] = [because(FindingKind.LEFT_OUT, entry.reason)]
            pytest.skip(entry.reason)


def judged(item: pytest.Item) -> Generator[None, object, object]:
    """Run a check, and take note of what it does not judge; if the product requires all, that is a failure."""
    if PLAN not in item.config.stash or cell_of(item) is None:
        return (yield)
    from harness.validate.findings import CheckFailed, NotJudged, parts_not_judged

    all_required = _is_check(item) and checks_of(item).require_all
    with parts_not_judged() as parts:
        try:
            result = yield
        except NotJudged as nothing:
            parts += nothing.findings
            if nothing.kind is not FindingKind.NOT_JUDGED or not all_required:
                pytest.skip(str(nothing))
        finally:
            item.stash.setdefault(NOT_JUDGED, []).extend(parts)
    if parts and all_required:
        raise CheckFailed(parts, claim=f"everything is judged, as product.yml has {REQUIRE_ALL}")
    return result


RAISED = pytest.StashKey[BaseException]()


def noted(item: pytest.Item) -> Generator[None, object, object]:
    """Run a check's function, and take note of what it raises."""
    try:
        return (yield)
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt):
            item.stash[RAISED] = error
        raise


def restore_error(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Have a check fail with what its function raised, where a hook of the project has caught that."""
    error = item.stash.get(RAISED, None)
    if call.when == "call" and call.excinfo is None and error is not None:
        call.excinfo = pytest.ExceptionInfo.from_exception(error)


def checks_of(item: pytest.Item) -> ProductChecks:
    """Return which checks judge the product."""
    spec, cell = item.config.stash[PLAN].project.spec, cell_of(item)
    return spec.product_of(cell.values if cell is not None else {}).checks


def _is_check(item: pytest.Item) -> bool:
    return PLAN in item.config.stash and cell_of(item) is not None and not is_step(item)

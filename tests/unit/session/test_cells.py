"""Whose fault a failed check is, and with which programs checks are made."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from harness import providers
from harness.artifacts.catalogue import Catalogue, load
from harness.cell.steps import Steps
from harness.check_result import CheckResult
from harness.errors import BadInput, Blame, InfraError, InfraRetriable, ProductError
from harness.kube.failures import ApiFailure, Overwhelmed, Unreachable
from harness.machines.reach.portforward import note
from harness.model import Cell, Outcome
from harness.session.cells import Cells, blame_of, cut_off
from harness.spec.settings import Settings
from harness.until import TimedOut
from tests.cells.life import test_life as life_items
from tests.unit.programs import run_loaded

CELL = Cell("c", {}, "s", (), (), {})
QUIET = Console(quiet=True)


def recorded(
    tmp_path: Path,
    *,
    changed: str,
    asserted: bool,
    error: BaseException | None = None,
    own: bool = False,
    busy: str = "",
) -> dict[str, Any]:
    plan: Any = SimpleNamespace(directory=tmp_path)
    cells = Cells(plan, open_site=lambda: cast(Any, None), console=Console(quiet=True))
    life: Any = SimpleNamespace(
        machines_changed=lambda _: changed,
        overload=lambda: busy,
        cell=CELL,
        guests=[],
        checks_failed=[],
        attempt=SimpleNamespace(number=1),
    )
    cells._lives[CELL.id] = life
    cells.record_check(
        CELL,
        CheckResult("services", "nodes", Outcome.FAILED, 1.0, stage="deploy", text="kubelet is not active"),
        error,
        asserted=asserted,
        own=own,
    )
    (line,) = (tmp_path / "results.jsonl").read_text(encoding="utf-8").splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


BUSY = "this host: load 96 on 2 processors, cpu some 99 %"


@pytest.mark.parametrize(
    ("asserted", "error", "blame"),
    [
        (True, None, "infra"),  # what a check saw of a cluster that could not be in time is not a judgement
        (False, TimedOut("two probe pods to be ready"), "infra"),
        (False, KeyError("items"), "harness"),  # load explains no bug
        (False, InfraError("cannot log in to w-0"), "infra"),
    ],
)
def test_a_failure_on_a_host_that_was_too_busy_is_not_the_products(
    tmp_path: Path, asserted: bool, error: BaseException | None, blame: str
) -> None:
    found = recorded(tmp_path, changed="", asserted=asserted, error=error, busy=BUSY)
    assert found["blame"] == blame
    assert (BUSY in found["detail"]) == (asserted or isinstance(error, TimedOut))


@pytest.mark.parametrize(
    ("changed", "asserted", "error", "blame"),
    [
        ("", True, None, "product"),
        ("machine w-0 died: OOMKilled (exit code 137)", True, None, "infra"),
        ("", False, InfraError("no"), "infra"),
        ("", False, ValueError("x"), "harness"),
        ("", False, TimedOut("two probe pods on each of cp-0, w-0 to be ready"), "product"),
        ("machine w-0 died: OOMKilled (exit code 137)", False, TimedOut("probe pods to be ready"), "infra"),
    ],
)
def test_whose_fault_a_failed_check_is(
    tmp_path: Path, changed: str, asserted: bool, error: BaseException | None, blame: str
) -> None:
    line = recorded(tmp_path, changed=changed, asserted=asserted, error=error)
    assert line["blame"] == blame
    assert changed in line["detail"]
    assert "kubelet is not active" in line["detail"]


@pytest.mark.parametrize(
    ("asserted", "error", "blame"),
    [(True, AssertionError(), "product"), (False, KeyError("x"), "user"), (False, InfraError("no"), "infra")],
    ids=["asserted", "raised by its own code", "an error with a blame"],
)
def test_whose_fault_a_failed_check_of_the_project_is(
    tmp_path: Path, asserted: bool, error: BaseException, blame: str
) -> None:
    assert recorded(tmp_path, changed="", asserted=asserted, error=error, own=True)["blame"] == blame


@dataclass
class Shelf:
    """A store that notes what it is asked for."""

    catalogue: Catalogue = field(default_factory=load)
    obtained: list[str] = field(default_factory=list)

    def obtain(self, name: str, version: str) -> Any:
        """Note it; refuse what the catalogue does not have, as a store does."""
        self.catalogue.require(name, version)
        self.obtained.append(f"{name}@{version}")
        return SimpleNamespace(directory=Path("/cache"))


def test_upstreams_tests_of_a_version_that_no_catalogue_knows_are_those_of_its_minor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shelf = Shelf()
    monkeypatch.setattr(providers, "store_of", lambda *_: shelf)
    plan: Any = SimpleNamespace(project=SimpleNamespace(settings=None, timeouts=None))
    cells = Cells(plan, open_site=lambda: cast(Any, None), console=Console(quiet=True))
    for version in ("1.36.1", "1.36.99"):
        assert cells.artifact("e2e.test", version) == Path("/cache/files")
    assert shelf.obtained == ["e2e.test@1.36.1", "e2e.test@1.36.3"]
    with pytest.raises(BadInput, match=r"e2e\.test has no version 1\.99\.0"):
        cells.artifact("e2e.test", "1.99.0")


@pytest.mark.parametrize(
    "error", [ApiFailure(503, "", "no", [], request="GET /"), Unreachable("no"), OSError(28, "full")]
)
def test_an_infra_cluster_that_is_gone_keeps_no_cell_from_its_end(error: Exception) -> None:
    ended: list[str] = []

    def life(name: str) -> Any:
        def teardown() -> None:
            ended.append(name)
            if name == "one":
                raise error

        cell = Cell(name, {}, "s", (), (), {})
        state = {"torn_down": False, "kept": False, "failed": False}
        return SimpleNamespace(cell=cell, collect=lambda: None, teardown=teardown, **state)

    plan: Any = SimpleNamespace(cleanup="vmatrix reap --run r", project=SimpleNamespace(settings=Settings()))
    cells = Cells(plan, open_site=lambda: cast(Any, None), console=Console(quiet=True))
    cells._lives |= {name: life(name) for name in ("one", "two")}
    cells.close_all()
    assert ended == ["one", "two"]
    assert cells.leak is not None
    assert cells.leak.summary.startswith("cell one could not be removed: ")
    assert cells.leak.hint.endswith("vmatrix reap --run r")


@pytest.mark.parametrize(
    ("settings", "failed", "kept"),
    [
        ({}, True, False),
        ({"keep_on_failure": True}, True, True),
        ({"keep_on_failure": True}, False, False),
        ({"keep_on_failure": True, "keep": "never"}, True, False),
        ({"keep": "failed"}, True, True),
        ({"keep": "failed"}, False, False),
        ({"keep": "always"}, True, True),
        ({"keep": "always"}, False, True),
        ({"keep": "never"}, True, False),
    ],
    ids=str,
)
@pytest.mark.parametrize("interrupted", [False, True])
def test_which_cells_are_kept(
    tmp_path: Path, settings: dict[str, Any], failed: bool, kept: bool, interrupted: bool
) -> None:
    plan: Any = SimpleNamespace(
        directory=tmp_path,
        project=SimpleNamespace(settings=Settings(**settings)),
        cleanup="vmatrix reap --run abcdef",
        provider_options=(),
        fail_fast=False,
    )
    cells = Cells(plan, open_site=lambda: cast(Any, None), console=Console(quiet=True))
    cells.keep = not interrupted
    done: list[str] = []
    life: Any = SimpleNamespace(
        cell=CELL,
        failed=failed,
        torn_down=False,
        kept=False,
        collect=lambda: done.append("collect"),
        teardown=lambda: done.append("teardown"),
        attempt=SimpleNamespace(number=1),
    )
    cells._lives[CELL.id] = life
    cells.shell = lambda _: done.append("shell")
    cells.close(CELL)
    shell = ["shell"] if failed and not interrupted else []
    assert done == ["collect", *shell, *([] if kept and not interrupted else ["teardown"])]
    assert life.kept == (kept and not interrupted)
    assert not life.torn_down, "only a teardown says so"
    if life.kept:
        ended = list(done)
        life_items.test_teardown(CELL, life, cells)
        assert done == ended, "the item takes it for an end"
        (line,) = (tmp_path / "results.jsonl").read_text(encoding="utf-8").splitlines()
        assert json.loads(line)["event"] == "kept"


@pytest.mark.parametrize("told", [False, True], ids=["by no step", "by its step"])
def test_what_an_item_about_a_step_finds_is_told_once(tmp_path: Path, told: bool) -> None:
    """Else a run ends with an exit code that nothing explains."""
    cells = Cells(cast(Any, SimpleNamespace(directory=tmp_path)), open_site=lambda: cast(Any, None), console=QUIET)
    steps, error = Steps(cells.recorder, CELL.id, 1), AssertionError("it is not torn down")
    cells._lives[CELL.id] = cast(Any, SimpleNamespace(steps=steps))
    if told:
        with pytest.raises(AssertionError), steps.step("teardown"):
            raise error
    cells.record_step(CELL, "teardown", error)
    lines = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    (ended,) = [line for line in lines if line["event"] == "step-end"]
    assert (ended["step"], ended["outcome"], ended["blame"]) == (["teardown"], "failed", "harness")
    assert ended["summary"] == "AssertionError: it is not torn down"


@pytest.mark.parametrize(
    ("fail_fast", "failed", "stopped"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_a_run_that_is_to_fail_fast_begins_no_further_cell(fail_fast: bool, failed: bool, stopped: bool) -> None:
    plan: Any = SimpleNamespace(fail_fast=fail_fast)
    cells = Cells(plan, open_site=lambda: cast(Any, None), console=Console(quiet=True))
    assert (cells.stopped, cells.begun(CELL)) == (False, False)
    cells._lives[CELL.id] = cast(Any, SimpleNamespace(failed=failed))
    assert (cells.stopped, cells.begun(CELL)) == (stopped, True)


CONFTEST = """
from pathlib import Path
from types import SimpleNamespace
import pytest
from rich.console import Console
from harness.model import Cell, Phase
from harness.plugin.state import CELLS, PLAN
from harness.session.cells import Cells
from harness.spec.models.leaves import ProductChecks
from harness.until import Deadline, NotYet, until

CELL = Cell("cell-1", {}, "fresh", (Phase("deploy"),), (), {})

@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    product = SimpleNamespace(checks=ProductChecks())
    project = SimpleNamespace(spec=SimpleNamespace(product_of=lambda values: product))
    plan = SimpleNamespace(cells=(CELL,), after=None, suites=lambda: None, project=project, directory=Path("results"))
    opened = Cells(plan, open_site=lambda: None, console=Console(quiet=True))
    opened._lives[CELL.id] = SimpleNamespace(
        machines_changed=lambda _: "__CHANGED__", overload=lambda: "", cell=CELL, guests=[], checks_failed=[],
        attempt=SimpleNamespace(number=1),
    )
    config.stash[PLAN], config.stash[CELLS] = plan, opened

@pytest.fixture
def probes():
    return until(lambda: NotYet("not ready: probe on w-0"), deadline=Deadline.after(0), what="two probe pods")
"""
CHECK = "def test_pods_reach_pods(cell, probes):\n    pass\n"
FORBIDDEN = ApiFailure(403, "Forbidden", "pods is forbidden", [], request="GET /api/v1/pods")


@pytest.mark.parametrize(
    ("error", "blame"),
    [
        (TimedOut("two probe pods on each of cp-0, w-0 to be ready"), Blame.PRODUCT),
        (FORBIDDEN, Blame.PRODUCT),
        (Overwhelmed(503, "", "no endpoints", [], request="GET /apis/metrics.k8s.io"), Blame.PRODUCT),
        (Unreachable("GET https://10.0.0.1:6443/livez: connection refused"), Blame.PRODUCT),
        (ProductError("the guest's API server does not answer"), Blame.PRODUCT),
        (InfraError("cannot log in to w-0"), Blame.INFRA),
        (InfraRetriable("the image registry 10.0.0.1:5000 does not answer"), Blame.INFRA),
        (KeyError("items"), Blame.HARNESS),
        (None, Blame.HARNESS),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_an_error_of_a_check_or_of_its_own_fixture(error: BaseException | None, blame: Blame) -> None:
    assert blame_of(error, asserted=False) is blame
    assert blame_of(error, asserted=True) is Blame.PRODUCT


def test_a_tunnel_that_has_just_broken_explains_a_silent_api(tmp_path: Path) -> None:
    given: dict[str, object] = {
        "kubeconfig": "",
        "context": None,
        "namespace": "n",
        "instances": {},
        "log": str(tmp_path / "log"),
    }
    (tmp_path / "tunnels").write_text(json.dumps(given), encoding="utf-8")
    assert cut_off(None) == ""
    assert cut_off(tmp_path / "tunnels") == ""
    note(tmp_path / "log", "10.0.0.2", 6443, "virt-api is gone")
    assert cut_off(tmp_path / "tunnels") == "the tunnel to a machine broke: virt-api is gone"


@pytest.mark.parametrize(("changed", "blame"), [("", "product"), ("machine w-0 was evicted", "infra")])
def test_a_check_whose_own_fixture_waits_in_vain(tmp_path: Path, changed: str, blame: str) -> None:
    (tmp_path / "network").mkdir()
    (tmp_path / "results").mkdir()
    (tmp_path / "conftest.py").write_text(CONFTEST.replace("__CHANGED__", changed), encoding="utf-8")
    (tmp_path / "network" / "test_it.py").write_text(CHECK, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    done = run_loaded(command, cwd=tmp_path)
    found = tmp_path / "results" / "results.jsonl"
    assert found.exists(), done.stdout + done.stderr
    (check,) = (json.loads(line) for line in found.read_text(encoding="utf-8").splitlines())
    assert (check["suite"], check["outcome"], check["blame"]) == ("network", "failed", blame)
    assert "not ready: probe on w-0" in check["detail"]
    assert changed in check["detail"]

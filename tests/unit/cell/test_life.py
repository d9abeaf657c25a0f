"""Whoever looks on is told of each phase, of all machines, and of the guest that is there before it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.cell import diagnose
from harness.cell import life as asked
from harness.cell.life import Life, overload
from harness.cell.product import kinds
from harness.cell.product.protocol import PhaseOutcome, PhaseRun, ProductKind, Tell
from harness.cell.provision import Attempt
from harness.cell.site import Site
from harness.cell.steps import Steps
from harness.cell.variables import named_machines
from harness.errors import BadInput, HarnessBug, InfraError, InfraRetriable, ProductError
from harness.events import Recorder, read
from harness.model import Cell, Environment, GuestCluster, Machine, Mirror, Phase, PlannedMachine
from harness.paths import project_dir
from harness.pressure import Pressure
from harness.proc import Completed
from harness.spec import load_spec
from harness.spec.models import Timeouts
from tests.unit.shipped_timeouts import TIMEOUTS

KUBECONFIG = """\
clusters: [{name: c, cluster: {server: "http://192.0.2.1:6443"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
current-context: c
"""
PHASES = (Phase("deploy"), Phase("upgrade"), Phase("reset", cluster=False), Phase("deploy"))


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Life:
    cell = Cell("c", {}, "s", PHASES, (), {})
    environment = Environment("r", cell, 1, "ns", (), tmp_path, tmp_path / "id")
    site: Any = None
    made = Life(site, Attempt("abcdef", cell, 1, tmp_path), Steps(Recorder(tmp_path), "c", 1))
    monkeypatch.setattr(Life, "provision", lambda _: environment)
    monkeypatch.setattr(Life, "_apply", lambda _, whole, index: GuestCluster(whole, tmp_path, {"phase": index}))
    return made


def test_who_looks_on_is_told_of_each_phase_and_of_the_guest_before_it(life: Life) -> None:
    told: list[tuple[int, Any]] = []

    @contextmanager
    def watch(index: int, _: Environment, before: GuestCluster | None) -> Iterator[None]:
        told.append((index, before.expected["phase"] if before is not None else None))
        yield

    life.watch = watch
    life.apply(3)
    assert told == [(0, None), (1, 0), (2, 1), (3, None)], "after a reset there is no guest before the next phase"


def test_who_looks_on_is_left_when_a_phase_fails(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[BaseException] = []

    @contextmanager
    def watch(*_: object) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            left.append(error)
            raise

    def fail(*_: object) -> GuestCluster:
        raise ProductError("no")

    life.watch = watch
    monkeypatch.setattr(Life, "_apply", fail)
    with pytest.raises(ProductError):
        life.apply(0)
    assert len(left) == 1


def test_the_playbooks_are_told_who_leaves_and_who_is_lost() -> None:
    assert named_machines(Phase("x", removed=("w-0",), lost=("cp-2", "cp-1"))) == {
        "cluster_remove_nodes": ["w-0"],
        "cluster_lost_nodes": ["cp-2", "cp-1"],
    }
    assert named_machines(Phase("x")) == {}


class Edited:
    """A product whose phases are edits of objects: no process, no playbook, no folder."""

    def __init__(self, runs: list[PhaseRun], outcome: PhaseOutcome, *, leaves: str) -> None:
        self.runs, self.outcome, self.leaves = runs, outcome, leaves

    def prepare(self, tell: Tell, timeouts: Timeouts) -> None:
        """Need nothing."""

    def entries(self) -> tuple[Path, ...]:
        return ()

    def command(self, phase: str, machines: Environment) -> str:
        """Name what a person does."""
        return f"kubectl apply -f {phase}.yml"

    def run(self, wanted: PhaseRun) -> PhaseOutcome:
        """Note what was wanted; write the kubeconfig where the product leaves one."""
        self.runs.append(wanted)
        if self.leaves:
            Path(wanted.variables["cluster_kubeconfig_path"]).write_text(self.leaves, encoding="utf-8")
        return self.outcome


def with_kind(folder: Path, monkeypatch: pytest.MonkeyPatch, kind: ProductKind) -> Life:
    """Return the life of a cell whose product is of another kind than those that there are."""
    monkeypatch.setitem(kinds.KINDS, "ansible", lambda _product, _project: kind)
    monkeypatch.setattr(Life, "machines_changed", lambda _self, _names: "")
    nobody: Any = None
    site = Site(
        cluster=nobody,
        spec=load_spec(project_dir() / "matrix"),
        timeouts=TIMEOUTS,
        mirror=Mirror("http://m", "r:5000"),
        guest_vars={},
        image=nobody,
        storage_class=None,
        project=folder,
        expiry_hours=1,
    )
    phases = (Phase("deploy", machines=("m-0", "m-1")), Phase("reset", cluster=False, machines=("m-0", "m-1")))
    cell = Cell("c", {}, "s", (*phases, phases[0]), (), {})
    machines = tuple(
        Machine(PlannedMachine(name, ("node",), 1, 512, 10, "i"), "192.0.2.1", 22, "root") for name in ("m-0", "m-1")
    )
    environment = Environment("r", cell, 1, "ns", machines, folder, folder / "id")
    return Life(site, Attempt("abcdef", cell, 1, folder), Steps(Recorder(folder), "c", 1), environment=environment)


def test_a_product_of_any_kind_is_run_by_what_the_protocol_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[PhaseRun] = []
    life = with_kind(tmp_path, monkeypatch, Edited(runs, PhaseOutcome("deploy.yml"), leaves=KUBECONFIG))
    guest = life.apply(0)
    assert guest.kubeconfig.read_text(encoding="utf-8") == KUBECONFIG
    assert guest.kubeconfig.stat().st_mode & 0o777 == 0o600, "others could read it"
    (run,) = runs
    assert (run.stage, run.timeout, run.log.name) == ("deploy", TIMEOUTS.phase_deploy, "deploy.log")
    assert [m.name for m in run.environment.machines] == ["m-0", "m-1"]
    assert run.environment.files.hosts.is_file()


def test_a_product_of_any_kind_has_to_leave_a_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    life = with_kind(tmp_path, monkeypatch, Edited([], PhaseOutcome("deploy.yml"), leaves=""))
    with pytest.raises(ProductError, match=r"^deploy\.yml succeeded but left no kubeconfig at "):
        life.apply(0)


@pytest.mark.parametrize("content", ["{}", "clusters: [", KUBECONFIG.replace("current-context: c", "")])
def test_a_kubeconfig_that_nobody_can_use_is_none(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = with_kind(tmp_path, monkeypatch, Edited([], PhaseOutcome("deploy.yml"), leaves=content))
    with pytest.raises(ProductError, match=r"^deploy\.yml succeeded but left no usable kubeconfig at ") as failed:
        life.apply(0)
    assert "VMATRIX_GUEST_KUBECONFIG" in failed.value.hint


def test_a_kubeconfig_of_a_cluster_that_is_gone_is_not_that_of_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = Edited([], PhaseOutcome("deploy.yml"), leaves=KUBECONFIG)
    life = with_kind(tmp_path, monkeypatch, kind)
    life.apply(0)
    kind.leaves = ""
    assert not life.apply(1).kubeconfig.exists()
    with pytest.raises(ProductError, match="left no kubeconfig"):
        life.apply(2)


def test_a_product_that_tells_what_it_touched_has_to_deploy_on_all_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = Edited([], PhaseOutcome("deploy.yml", frozenset({"m-0"})), leaves=KUBECONFIG)
    with pytest.raises(ProductError, match=r"^deploy\.yml did nothing on m-1$"):
        with_kind(tmp_path, monkeypatch, kind).apply(0)


def test_a_phase_that_is_run_again_has_a_log_of_its_own_and_says_what_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[PhaseRun] = []
    outcome = PhaseOutcome("deploy.yml", changed=("task [copy] on m-0",))
    life = with_kind(tmp_path, monkeypatch, Edited(runs, outcome, leaves=KUBECONFIG))
    life.apply(0)
    assert life.again(0) is outcome
    first, second = runs
    assert (first.again, second.again) == (False, True)
    assert (second.stage, second.log.name) == ("deploy", "deploy-again.log")
    assert second.variables == first.variables
    assert [m.name for m in second.environment.machines] == ["m-0", "m-1"]
    assert (tmp_path / "kubeconfig").stat().st_mode & 0o777 == 0o600


def test_a_phase_that_others_have_followed_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    life = with_kind(tmp_path, monkeypatch, Edited([], PhaseOutcome("deploy.yml"), leaves=KUBECONFIG))
    life.apply(1)
    with pytest.raises(HarnessBug, match="later phases have been run"):
        life.again(0)


def test_a_second_run_that_fails_is_the_products_unless_machines_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = Edited([], PhaseOutcome("deploy.yml"), leaves=KUBECONFIG)
    life = with_kind(tmp_path, monkeypatch, kind)
    life.apply(0)

    def fail(_: PhaseRun) -> PhaseOutcome:
        raise ProductError("no")

    monkeypatch.setattr(kind, "run", fail)
    with pytest.raises(ProductError, match=r"^no$"):
        life.again(0)
    monkeypatch.setattr(Life, "machines_changed", lambda _self, _names: "m-0 is gone")
    with pytest.raises(InfraError, match="during the second run of deploy: m-0 is gone"):
        life.again(0)


@pytest.mark.parametrize("again", [False, True])
def test_a_phase_that_fails_on_a_host_that_was_too_busy_is_not_the_products(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    kind = Edited([], PhaseOutcome("deploy.yml"), leaves=KUBECONFIG)
    life = with_kind(tmp_path, monkeypatch, kind)
    if again:
        life.apply(0)

    def fail(_: PhaseRun) -> PhaseOutcome:
        raise ProductError("kubeadm timed out")

    monkeypatch.setattr(kind, "run", fail)
    monkeypatch.setattr("harness.cell.life.overload", lambda *_: "this host: load 96 on 2 processors")
    with pytest.raises(InfraRetriable, match="load 96 on 2 processors") as raised:
        life.again(0) if again else life.apply(0)
    assert "kubeadm timed out" in raised.value.detail


def test_load_explains_no_mistake_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = Edited([], PhaseOutcome("deploy.yml"), leaves=KUBECONFIG)
    life = with_kind(tmp_path, monkeypatch, kind)

    def fail(_: PhaseRun) -> PhaseOutcome:
        raise BadInput("no such variable")

    monkeypatch.setattr(kind, "run", fail)
    monkeypatch.setattr("harness.cell.life.overload", lambda *_: "this host: load 96 on 2 processors")
    with pytest.raises(BadInput):
        life.apply(0)


class Watched:
    """What machines took, as a watch of them that the test tells what to say."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def deployed(self) -> None:
        self.told.append("deployed")

    def stop(self) -> dict[str, dict[str, int]]:
        self.told.append("stop")
        return {"cp-0": {"peak": 1029}}


def test_what_machines_took_is_told_after_the_first_phase_and_written_once(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched: Any = Watched()
    monkeypatch.setattr(life, "_usage", watched)
    machine = PlannedMachine("cp-0", (), 2, 2048, 12, "debian-13")
    life.attempt = replace(life.attempt, cell=replace(life.cell, machines=(machine,)))
    life.apply(1)
    assert watched.told == ["deployed"]
    monkeypatch.setattr(diagnose, "collect", lambda *_, **__: [])
    monkeypatch.setattr(life, "site", SimpleNamespace(cluster=None, timeouts=TIMEOUTS))
    life.collect()
    life.collect()
    told = [event["took"] for event in read(life.attempt.directory) if event["event"] == "usage"]
    assert told == [{"cp-0": {"memory": 2048, "asked": 0, "peak": 1029}}]


MACHINES = tuple(
    Machine(PlannedMachine(name, ("node",), 1, 512, 10, "i"), "192.0.2.1", 22, "root")
    for name in ("cp-0", "w-0", "w-1")
)
# nproc, /proc/loadavg, and 30 % of the processors' time stolen between two readings of /proc/stat
STOLEN = "2\n1 1 1\ncpu  100 0 100 800 0 0 0 0 0 0\ncpu  150 0 120 870 0 0 0 60 0 0"
IDLE = Pressure("this host", 2, (1.0, 1.0, 1.0), {})
BUSY = Pressure("this host", 2, (96.0, 1.0, 1.0), {})


def test_machines_are_asked_only_where_this_host_does_not_explain_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked, "this_host", lambda: BUSY)
    monkeypatch.setattr(asked, "run_on", lambda *_, **__: pytest.fail("a machine was asked"))
    assert overload(MACHINES, Path("id")) == "this host: load 96 on 2 processors"


def test_a_machine_that_does_not_answer_explains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(machine: Machine, *_: object, **__: object) -> Completed:
        if machine.name == "cp-0":
            raise InfraError("cannot log in")
        stolen = STOLEN if machine.name == "w-0" else "Permission denied"
        return Completed(("ssh",), 0 if machine.name == "w-0" else 255, stolen, "", 1.0)

    monkeypatch.setattr(asked, "this_host", lambda: IDLE)
    monkeypatch.setattr(asked, "run_on", run)
    assert overload(MACHINES, Path("id")).startswith("w-0: load 1 on 2 processors")
    assert overload((), Path("id")) == ""

"""Programs of an instance that end during a run: which are started again, and when they are given up."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from harness import proc
from harness.errors import InfraError
from harness.infra.findings import Finding
from harness.infra.host import processes
from harness.infra.host.instance import Occupant
from harness.infra.host.keeper import Keeper
from harness.infra.host.layout import InstanceRecord, Layout, boot_id, save_record
from harness.infra.host.processes import InstanceParts
from harness.infra.host.program import HostConfig, HostProgram, PlainCommand
from harness.until import Deadline, NotYet, until

SAYS_AND_STAYS = "import time; print('the data are at revision 7', flush=True); time.sleep(3600)"
ENDS = "raise SystemExit('no space left on device')"
NAMES = ("etcd", "kube-apiserver")


def nothing() -> None:
    """Stand for what the test has no use for."""


class Programs(Occupant):
    """Two programs, the second of which needs the first."""

    name = "unit"
    code = SAYS_AND_STAYS

    def findings(self) -> Sequence[Finding]:
        return []

    def programs(self, index: int) -> Sequence[HostProgram]:
        command = PlainCommand((sys.executable, "-c", self.code))

        def said(name: str) -> NotYet | None:
            return None if "revision" in processes.tail(self.layout, name) else NotYet("it says nothing yet")

        first, second = (HostProgram(name, lambda: command, lambda name=name: said(name)) for name in NAMES)  # type: ignore[misc]
        return first, HostProgram(second.name, second.command, second.ready, after=NAMES[:1])

    def remove(self) -> None:
        self.host.remove()


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    layout = Layout("unit", tmp_path / "unit")

    def none(_: str) -> PlainCommand:
        return PlainCommand(())

    def registry(_: str, __: Path) -> PlainCommand:
        return none("")

    config = HostConfig(layout, lambda _: Path(), none, none, lambda _: None, nothing, lambda: True, registry, registry)
    made = Programs(config)
    save_record(layout, InstanceRecord("unit", 0, "", boot_id()))
    for directory in (layout.run, layout.logs):
        directory.mkdir(parents=True)
    made.host.start(made.programs(0))
    yield made
    processes.take_down(layout, NAMES, grace=0)


def kill(programs: Programs, name: str) -> None:
    service = proc.Service.load(programs.layout.pidfile(name))
    assert service is not None
    os.kill(service.pid, signal.SIGKILL)
    until(
        lambda: not service.alive() or NotYet("it is alive"), deadline=Deadline.after(60), what="its end", interval=0.01
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_program_that_was_killed_is_started_again_and_the_others_stay(programs: Programs, name: str) -> None:
    (other,) = set(NAMES) - {name}
    before, said = proc.Service.load(programs.layout.pidfile(other)), list[str]()
    kill(programs, name)
    assert InstanceParts(programs.layout).dead() == [name]
    Keeper(programs, said.append).look()
    assert InstanceParts(programs.layout).dead() == []
    assert proc.Service.load(programs.layout.pidfile(other)) == before
    (line,) = said
    assert line.startswith(f"{name} of instance unit ended and was started again\n")
    assert line.endswith("the data are at revision 7"), "its last lines"


def test_both_at_once_are_one_start(programs: Programs) -> None:
    said = list[str]()
    for name in NAMES:
        kill(programs, name)
    Keeper(programs, said.append, most=1).look()
    assert InstanceParts(programs.layout).dead() == []
    assert said[0].startswith("etcd, kube-apiserver of instance unit ended and was started again")


def test_what_ends_too_often_is_given_up_and_waits_end_with_its_last_lines(programs: Programs) -> None:
    said, parts = list[str](), InstanceParts(programs.layout)
    keeper = Keeper(programs, said.append, most=2)
    for _ in range(3):
        assert parts.lost() is None
        kill(programs, "etcd")
        keeper.look()
    keeper.look()
    assert len(said) == 3, "and nothing more is said"
    lost = parts.lost()
    assert isinstance(lost, InfraError)
    assert "etcd of instance unit ended and is not started again: programs of the instance were started" in lost.summary
    assert "revision 7" in lost.detail
    assert lost.hint.endswith("vmatrix infra up --infra-name unit")
    programs.host.start(programs.programs(0))
    assert parts.lost() is None, "infra up starts afresh"


def test_what_does_not_come_up_is_given_up_at_once(programs: Programs) -> None:
    said = list[str]()
    kill(programs, "etcd")
    programs.code = ENDS
    programs.layout.logfile("etcd").write_text("", encoding="utf-8")
    Keeper(programs, said.append).look()
    assert "ended while it was coming up" in said[0]
    assert "no space left on device" in said[0]
    assert InstanceParts(programs.layout).lost() is not None


def test_an_instance_that_is_being_removed_is_left_alone(programs: Programs) -> None:
    said, found = list[str](), programs.host.record
    assert found is not None
    save_record(programs.layout, InstanceRecord(found.name, 0, "", found.boot, ending=True))
    kill(programs, "etcd")
    Keeper(programs, said.append).look()
    assert said == []
    assert not processes.runs(programs.layout, "etcd")


def test_a_death_is_noticed_while_its_body_runs(programs: Programs) -> None:
    said = list[str]()
    with Keeper(programs, said.append):
        kill(programs, "etcd")
        until(lambda: bool(said) or NotYet("nothing is said"), deadline=Deadline.after(120), what="it to be noticed")
    assert processes.runs(programs.layout, "etcd")

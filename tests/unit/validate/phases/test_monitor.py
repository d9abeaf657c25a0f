"""The monitor sees, marks and asks; what goes wrong there ends no phase, and the check that needs it fails with it."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HarnessBug, InfraError, ProductError
from harness.model import Cell, Environment, Machine, Phase
from harness.spec.models import Timeouts
from harness.until import Deadline
from harness.validate.phases import monitor as module
from harness.validate.phases.availability import send_requests
from harness.validate.phases.monitor import KEEPS_ANSWERING, PhaseMonitor, client_of, leaves_bare, local_api
from tests.unit.validate import foreign, guests
from tests.unit.validate.foreign import SAID, UNSAID
from tests.unit.validate.moments import moment
from tests.unit.validate.serving import serving

TIMEOUTS = Timeouts(**dict.fromkeys(Timeouts.model_fields, 5.0))
DEPLOY, UPGRADE = Phase("deploy"), Phase("upgrade", workload=KEEPS_ANSWERING)
ROOT = Machine(replace(guests.guest().environment.machines[0].planned, name="w-0"), "127.0.0.1", 22, "root")
# in place of ssh: the command that is appended runs here; bash becomes its only command, so that stopping it stops that
HERE = ("/bin/bash", "-c")


class Silent:
    """An Inspection of a guest that answers."""

    api = None
    expected = guests.expected()

    def __init__(self, guest: Any, leaves: object, **_: Any) -> None:
        self.guest = guest

    def wait_for_api(self) -> None:
        """Answer at once."""


def monitor(*phases: Phase) -> PhaseMonitor:
    cell = Cell("c", {}, "s", phases, (), {})
    return PhaseMonitor(
        cell, "mirror:5000", TIMEOUTS, guests.OURS, lambda _: (), lambda *_: HERE, lambda _: nullcontext()
    )


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Have a guest that can be seen and marked; return its marks."""
    marks: dict[str, str] = {}
    monkeypatch.setattr(module, "Inspection", Silent)
    monkeypatch.setattr(module, "observe", lambda _: moment())
    monkeypatch.setattr("harness.validate.phases.monitor.leave_mark", lambda _, name, mark: marks.update({name: mark}))
    return marks


def environment(directory: Path) -> Environment:
    return replace(guests.guest().environment, directory=directory)


def test_before_a_phase_the_guest_is_seen_and_marked(marked: dict[str, str], tmp_path: Path) -> None:
    seen = monitor(DEPLOY, Phase("backup"))
    with seen.watch(0, environment(tmp_path), None):
        assert seen.record(0).before is None
    with seen.watch(1, environment(tmp_path), guests.guest()):
        assert seen.record(1).before is not None
    assert marked == {"backup": seen.marks[1]}
    assert seen.addresses == {"cp-0": "10.222.1.2", "w-0": "10.222.1.3"}


def test_what_goes_wrong_ends_no_phase_and_is_raised_where_it_is_missed(
    marked: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Any) -> Any:
        raise InfraError("cannot log in to w-0")

    monkeypatch.setattr(module, "observe", fail)
    seen = monitor(DEPLOY, UPGRADE)
    passed = False
    with seen.watch(1, environment(tmp_path), guests.guest()):
        passed = True
    assert passed
    record = seen.record(1)
    with pytest.raises(InfraError, match="cannot log in to w-0"):
        record.guest_before()
    with pytest.raises(InfraError, match="cannot log in to w-0"):
        record.of(module.API)
    assert marked == {}


def test_a_phase_that_nobody_watched_has_no_record() -> None:
    with pytest.raises(HarnessBug, match="got no request"):
        monitor(DEPLOY, UPGRADE).record(1).of(module.WORKLOAD)
    with pytest.raises(HarnessBug, match="was not looked at before"):
        monitor(DEPLOY, UPGRADE).record(1).guest_before()


def test_questions_stop_when_the_phase_fails(
    marked: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[bool] = []

    class Endless:
        def stop(self) -> None:
            stopped.append(True)

    monkeypatch.setattr(PhaseMonitor, "_start_requests", lambda *_: Endless())
    seen = monitor(DEPLOY, UPGRADE)
    with pytest.raises(KeyboardInterrupt), seen.watch(1, environment(tmp_path), guests.guest()):
        raise KeyboardInterrupt
    assert stopped == [True]


def test_a_phase_that_fails_says_what_was_answered_meanwhile(
    marked: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = ProductError("upgrade.yml failed", detail="as it said")
    with serving() as port:
        asking = send_requests(
            ROOT, HERE, {module.WORKLOAD: (f"http://127.0.0.1:{port}/", "")}, tmp_path / "log", TIMEOUTS
        )
        monkeypatch.setattr(PhaseMonitor, "_start_requests", lambda *_: asking)
        asking.wait_for_success(Deadline.after(30), what="it to answer")
        watched = monitor(DEPLOY, UPGRADE).watch(1, environment(tmp_path), guests.guest())
        with pytest.raises(ProductError) as raised, watched:
            raise failure
    first, told = raised.value.detail.splitlines()
    assert first == "as it said"
    assert told.startswith("meanwhile workload: longest outage ")
    assert not asking.service.alive()


def test_machines_are_looked_at_bare_only_where_they_have_to_become_so_again() -> None:
    def cell(*phases: Phase) -> Cell:
        return Cell("c", {}, "s", phases, (), {})

    assert leaves_bare(cell(DEPLOY, Phase("reset", cluster=False)))
    assert leaves_bare(cell(DEPLOY, Phase("remove-node", removed=("w-0",))))
    assert not leaves_bare(cell(DEPLOY, UPGRADE, Phase("recover", lost=("cp-0",))))


@pytest.mark.parametrize(
    ("phase", "asker"),
    [(UPGRADE, "w-0"), (replace(UPGRADE, removed=("w-0",)), "cp-0"), (replace(UPGRADE, lost=("w-0",)), "cp-0")],
)
def test_it_is_asked_from_a_node_that_stays(phase: Phase, asker: str, tmp_path: Path) -> None:
    cell = Cell("c", {}, "s", (DEPLOY, phase), (), {})
    assert client_of(cell, 1, environment(tmp_path)).name == asker


class Pen:
    """A writer that remembers what became of it."""

    last: Pen

    def __init__(self, _: object) -> None:
        self.said: list[str] = []
        Pen.last = self

    def start(self) -> None:
        """Begin."""
        self.said.append("start")

    def stop(self) -> None:
        """End."""
        self.said.append("stop")


@pytest.fixture
def cut(marked: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> PhaseMonitor:
    monkeypatch.setattr(module, "Writer", Pen)
    monkeypatch.setattr(PhaseMonitor, "states_of", lambda _, names, *, with_files: {name: {"n": {}} for name in names})
    return monitor(DEPLOY, Phase("power-loss", restart="power-cut", restarts=("w-0",)))


def test_machines_that_restart_are_looked_at_and_a_power_cut_is_written_through(
    cut: PhaseMonitor, tmp_path: Path
) -> None:
    with cut.watch(1, environment(tmp_path), guests.guest()):
        assert Pen.last.said == ["start"]
    assert Pen.last.said == ["start", "stop"]
    assert list(cut.record(1).states) == ["w-0"]


def test_the_writes_end_with_a_phase_that_fails(cut: PhaseMonitor, tmp_path: Path) -> None:
    with pytest.raises(ProductError), cut.watch(1, environment(tmp_path), guests.guest()):
        raise ProductError("no")
    assert Pen.last.said == ["start", "stop"]


def test_why_nothing_could_be_written_is_told_where_it_is_missed(
    cut: PhaseMonitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Pen) -> None:
        raise InfraError("the API refuses")

    monkeypatch.setattr(Pen, "start", refuse)
    with cut.watch(1, environment(tmp_path), guests.guest()):
        pass
    record = cut.record(1)
    with pytest.raises(InfraError, match="the API refuses"):
        record.need(record.writer)


def test_ours_is_what_our_product_says() -> None:
    found = local_api(guests.expected(), moment(), "w-0")
    assert (found.url, found.ca, found.why) == ("https://127.0.0.1:6445", "/etc/kubernetes/pki/ca.crt", "")


def test_a_product_that_does_not_say_has_what_kubelet_uses() -> None:
    found = local_api(foreign.expected(UNSAID), foreign.moment(UNSAID), "w-0")
    assert (found.url, found.ca) == ("https://localhost:6443", "/etc/kubernetes/kubelet.conf")


def test_a_product_that_says_wins() -> None:
    assert local_api(foreign.expected(SAID), foreign.moment(SAID), "w-0").url == "https://localhost:6443"


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ("https://10.222.1.2:6443", "its kubelet uses https://10.222.1.2:6443, which is not an address of its own"),
        ("https://api.example.org", "which is not an address of its own"),
        ("", "no process named kubelet runs"),
    ],
)
def test_an_address_of_another_machine_is_not_judged(server: str, why: str) -> None:
    seen = foreign.moment(UNSAID)
    object.__setattr__(seen.facts["w-0"], "kubelet", {"server": server})
    found = local_api(foreign.expected(UNSAID), seen, "w-0")
    assert found.url == ""
    assert why in found.why

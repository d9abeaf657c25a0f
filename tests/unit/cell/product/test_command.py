"""A phase that is a program, run: its output, its end, its time, and the way to its machines."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from harness.cell.product import command
from harness.errors import InfraError, InfraRetriable, ProductError
from harness.kube.tunnels import Tunnels, note
from harness.model import Environment
from tests.unit.cell.product.phases import Phased
from tests.unit.cell.product.test_command_guard import STUBBORN, marked, runs


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give programs half a second to end."""
    monkeypatch.setattr(command, "GRACE_SECONDS", 0.5)


def test_output_is_logged_and_tasks_are_told_as_they_come(phased: Phased) -> None:
    phased.script('echo "TASK [join $1]"; echo err >&2; pwd')
    outcome = phased.run()
    assert (outcome.what, outcome.touched) == ("run.sh", None)
    assert phased.told == ["join a b"]
    _, *lines = phased.environment().files.log("deploy").read_text(encoding="utf-8").splitlines()
    assert sorted(lines) == sorted(["TASK [join a b]", "err", str(phased.folder / "deploy")])


def test_output_is_there_while_the_program_runs(phased: Phased) -> None:
    log = phased.environment().files.log("deploy")
    phased.script(f"echo first; until grep -q first {log}; do sleep 0.05; done; echo second")
    phased.run()
    assert log.read_text(encoding="utf-8").splitlines()[1:] == ["first", "second"]


def test_a_programs_failure_is_the_products(phased: Phased) -> None:
    phased.script('echo "TASK [join w-0]"; echo "error: no route"; exit 3')
    with pytest.raises(ProductError) as failed:
        phased.run()
    assert failed.value.summary == "run.sh ended with status 3 in task [join w-0]: error: no route"
    assert failed.value.paths == (phased.environment().files.log("deploy"),)


def test_a_result_file_decides(phased: Phased) -> None:
    phased.script('echo "{\\"blame\\": \\"infra\\", \\"summary\\": \\"no quota\\"}" > "$VMATRIX_RESULT"; exit 1')
    with pytest.raises(InfraError, match=r"run\.sh ended with status 1: no quota"):
        phased.run()


def test_an_earlier_runs_result_is_not_this_ones(phased: Phased) -> None:
    file = phased.environment().files.result("deploy")
    file.parent.mkdir(parents=True)
    file.write_text("no JSON", encoding="utf-8")
    phased.script("exit 0")
    phased.run()
    assert not file.exists()


def test_a_program_that_does_not_start_is_the_products_failure(phased: Phased) -> None:
    file = phased.script("")
    file.write_text("#!/nowhere/bash\n", encoding="utf-8")
    with pytest.raises(ProductError, match="could not be started: No such file"):
        phased.run()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("stubborn", [False, True])
def test_a_program_whose_time_is_up_ends_with_all_that_it_started(
    stubborn: bool, phased: Phased, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GUARDED", f"time-{os.getpid()}-{stubborn}")
    phased.script(f"echo 'TASK [wait]'; setsid sleep 65 & {STUBBORN if stubborn else 'sleep 66'}")
    began = time.monotonic()
    with pytest.raises(ProductError) as failed:
        phased.run(seconds=4.0)  # a busy host starts the program late
    assert failed.value.summary == "run.sh did not end within 4 s in task [wait]"
    assert time.monotonic() - began < 60  # before the program ends by itself
    assert marked(f"GUARDED=time-{os.getpid()}-{stubborn}") == []


@pytest.mark.usefixtures("impatient")
def test_a_program_may_say_at_its_end_why_it_took_so_long(phased: Phased) -> None:
    said = json.dumps({"blame": "infra", "retry": True, "summary": "the image does not come"})
    phased.script(f"trap 'echo '\"'\"'{said}'\"'\"' > \"$VMATRIX_RESULT\"; exit 1' TERM; sleep 67 & wait")
    with pytest.raises(InfraRetriable, match="did not end within 4 s: the image does not come"):
        phased.run(seconds=4.0)  # a busy host sets the trap late


def test_what_a_program_leaves_running_does_not_keep_the_phase(phased: Phased) -> None:
    phased.script(f"sleep 68 & {runs('!', 'sleep')}")
    began = time.monotonic()
    phased.run()
    assert time.monotonic() - began < 60  # before what it left ends by itself
    assert "left running, which is ended now: sleep" in phased.environment().files.log("deploy").read_text()


@pytest.mark.parametrize(
    ("machine", "said", "kind"),
    [
        ("w-0", {}, InfraRetriable),
        ("w-0", {"machines": ["w-0"]}, InfraRetriable),
        ("w-0", {"blame": "user"}, InfraRetriable),
        ("w-0", {"machines": ["cp-0"]}, ProductError),
    ],
)
def test_a_lost_connection_to_a_machine_that_failed_is_the_infrastructures(
    machine: str, said: dict[str, object], kind: type, phased: Phased, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = phased.environment()
    log, ways = whole.files.tunnels_log, whole.files.tunnels
    log.parent.mkdir(parents=True)
    Tunnels(Path("kubeconfig"), None, "ns", {}, log).save(ways)
    monkeypatch.setattr(Environment, "tunnels", property(lambda _: ways))
    address = next(m.address for m in whole.machines if m.name == machine)
    note(log, address, 22, "long ago")
    lines = log.read_text(encoding="utf-8")
    log.write_text(json.dumps({**json.loads(lines), "at": 0.0}) + "\n", encoding="utf-8")
    lost = json.dumps({"at": time.time() + 60, "address": address, "port": 22, "why": "cut"})
    phased.script(f"echo '{lost}' >> {log}; echo '{json.dumps(said)}' > \"$VMATRIX_RESULT\"; exit 1")
    with pytest.raises((ProductError, InfraRetriable)) as failed:
        phased.run()
    assert type(failed.value) is kind
    if kind is InfraRetriable:
        assert "the connection to w-0 was lost 1 times during the phase: cut" in failed.value.summary

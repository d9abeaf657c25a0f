"""Executors and managers are ended at the task that was named, once each; what follows is judged."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from harness.cell.product import chaos as chaos_module
from harness.cell.product.chaos import Chaos
from harness.cell.product.declared_wait import kills_of
from harness.errors import BadInput, HarnessBug, ProductError
from harness.kube.client import Cluster
from harness.kube.resources import POD
from harness.spec.settings import blows
from harness.until import Deadline, NotYet, until
from tests.unit.cell.product.executors import Played, job, pod

SECONDS = 60.0  # against hanging
INIT, JOIN = "TASK [control_plane : Initialise it] ****", "TASK [node : Join the cluster] ****"
Begin = Callable[[str], Chaos]


@pytest.fixture
def played() -> Played:
    """Return a cluster with a manager that runs."""
    made = Played()
    made.put("Pod", pod("", "manager", 0))
    return made


@pytest.fixture
def begin(played: Played, tmp_path: Path) -> Begin:
    """Return what begins to end programs as a setting says."""

    def chaos(text: str) -> Chaos:
        return Chaos(cast("Cluster", played), "ns", "a=b", blows(text), tmp_path / "chaos.jsonl", SECONDS)

    return chaos


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch, played: Played) -> list[str]:
    """Return the containers that are killed; an executor's Job and pod end with it, and the next attempt begins."""
    found: list[str] = []

    def kill(container: str) -> int:
        found.append(container)
        if container == "one-id":
            played.put("Pod", pod("guest-1-deploy", "one", 1, 9))
            played.put("Job", job("guest-1-deploy", 1, 10))
            second(played)
        return 4711

    monkeypatch.setattr(chaos_module, "kill", kill)
    return found


def first(played: Played) -> None:
    """Have a first attempt under way."""
    played.log["one"] = ["PLAY [x] ***", INIT, JOIN]
    played.put("Job", job("guest-1-deploy", 1))
    played.put("Pod", pod("guest-1-deploy", "one", 1))


def second(played: Played, began: int = 11) -> None:
    """Have a second attempt that succeeds."""
    played.log["two"] = ["PLAY [x] ***", INIT, JOIN]
    played.put("Pod", pod("guest-1-deploy-2", "two", began, 20))
    played.put("Job", job("guest-1-deploy-2", began, 21, how="Complete"))


def judged(chaos: Chaos, played: Played, *last: str) -> None:
    """Judge once all attempts have been made, as after a phase."""
    until(
        lambda: set(last) <= played.names() or NotYet(f"there are {played.names()}"),
        deadline=Deadline.after(SECONDS),
        what="the last attempt",
        interval=0.01,
    )
    chaos.judge()


def test_each_program_is_ended_at_its_task_and_all_is_written_down(
    played: Played, begin: Begin, killed: list[str], tmp_path: Path
) -> None:
    with begin("executor@Initialise it; manager@node : Join the cluster") as chaos:
        first(played)
        judged(chaos, played, "guest-1-deploy-2")
    assert killed == ["one-id", "manager-id"]
    assert [kills_of(one) for one in played.list(POD).items if one["metadata"]["name"] == "manager"] == [1]
    lines = [json.loads(line) for line in (tmp_path / "chaos.jsonl").read_text().splitlines()]
    struck = [(line["blow"], line["pod"], line["pid"]) for line in lines if line["event"] == "BLOW"]
    assert struck == [
        ("executor:deploy@Initialise it", "one", 4711),
        ("manager:deploy@node : Join the cluster", "manager", 4711),
    ]
    ends = {line["name"]: line["ended"] for line in lines if line.get("kind") == "Job"}
    assert ends == {"guest-1-deploy": "Failed", "guest-1-deploy-2": "Complete"}


def test_a_log_that_is_silent_for_long_is_read_on(played: Played, begin: Begin, killed: list[str]) -> None:
    played.breaks["one"] = 2
    with begin("manager@Initialise it; executor@Join the cluster") as chaos:
        first(played)
        judged(chaos, played, "guest-1-deploy-2")
    assert killed == ["manager-id", "one-id"]


def test_an_executor_is_evicted_by_the_api(played: Played, begin: Begin, killed: list[str]) -> None:
    with begin("eviction@Join the cluster") as chaos:
        first(played)
        played.put("Pod", pod("guest-1-deploy", "one", 1, 9))
        played.put("Job", job("guest-1-deploy", 1, 40, how="Complete"))
        with pytest.raises(ProductError, match="guest-1-deploy did not go on after its pod one was evicted"):
            chaos.judge()
        played.put("Pod", pod("guest-1-deploy", "other", 19, 39))
        chaos.judge()
    assert played.posted == ["/api/v1/namespaces/ns/pods/one/eviction"]
    assert killed == []


def test_a_task_that_no_executor_begins_is_bad_input(played: Played, begin: Begin, killed: list[str]) -> None:
    with begin("executor@Initialise it; executor@Reset it") as chaos:
        first(played)
        with pytest.raises(BadInput, match="executor:deploy@Reset it: no executor began that task"):
            judged(chaos, played, "guest-1-deploy-2")
    assert killed == ["one-id"]


def test_what_was_there_before_the_phase_is_left_alone(played: Played, begin: Begin, killed: list[str]) -> None:
    first(played)
    played.put("Job", job("guest-1-deploy", 1, 10))
    with pytest.raises(BadInput, match="no executor began that task"), begin("executor@Initialise it") as chaos:
        chaos.judge()
    assert killed == []


def test_a_program_that_had_ended_already_is_said_to_have(
    played: Played, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chaos_module, "kill", lambda _: None)
    with begin("executor@Join the cluster") as chaos:
        first(played)
        played.put("Job", job("guest-1-deploy", 1, 10, how="Complete"))
        with pytest.raises(HarnessBug, match="pod one: it ended before it could be"):
            chaos.judge()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([("Job", job("guest-1-deploy", 12, 30, uid="twin"))], "Job guest-1-deploy was made twice"),
        ([("Job", job("guest-1-deploy-3", 15, 30))], "guest-1-deploy-3 began before guest-1-deploy-2 had ended"),
        ([("Pod", pod("guest-1-deploy-2", "three", 15, 19))], "three began before two had ended"),
    ],
)
def test_two_at_a_time_and_twins_are_the_products_failure(
    played: Played, begin: Begin, killed: list[str], more: list[tuple[str, Any]], said: str
) -> None:
    with begin("executor@Initialise it") as chaos:
        for kind, obj in more:
            if kind == "Pod":
                played.log[obj["metadata"]["name"]] = []
            played.put(kind, obj)
        first(played)
        with pytest.raises(ProductError, match=said):
            judged(chaos, played, "guest-1-deploy-2")
    assert killed


Child = subprocess.Popen[bytes]


@pytest.fixture
def child() -> Iterator[Child]:
    """Return a process that ends by a signal alone."""
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as running:
        yield running
        running.kill()


def told(proc: Path, pid: int, container: str, numbers: str) -> None:
    """Have a folder say of a process what /proc would."""
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "cgroup").write_text(f"0::/machine/kubepods-pod1.slice/cri-containerd-{container}.scope\n")
    (proc / str(pid) / "status").write_text(f"Name:\tvmatrix\nNSpid:\t{numbers}\n")


def test_the_first_process_of_a_container_is_killed(tmp_path: Path, child: Child) -> None:
    told(tmp_path, child.pid, "c0ffee", f"{child.pid}\t57\t1")
    assert chaos_module.kill("c0ffee", tmp_path) == child.pid
    assert child.wait() == -signal.SIGKILL


@pytest.mark.parametrize(("container", "numbers"), [("beef", "57\t1"), ("c0ffee", "57\t8"), ("c0ffee", "1")])
def test_no_other_process_is_killed(tmp_path: Path, child: Child, container: str, numbers: str) -> None:
    told(tmp_path, child.pid, container, numbers)
    assert chaos_module.kill("c0ffee", tmp_path) is None
    assert child.poll() is None
    (tmp_path / str(child.pid) / "status").unlink()
    assert chaos_module.kill(container, tmp_path) is None

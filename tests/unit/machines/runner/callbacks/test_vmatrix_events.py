"""Which failure ended a playbook, as ansible-playbook itself tells it: real runs on this host."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from harness.errors import InfraError, InfraRetriable, ProductError
from harness.machines.runner import callbacks
from harness.machines.runner.playbook_output import Ended, ended_by, failure_of
from harness.proc import run
from tests.unit import ansible_programs

ANSIBLE = str(Path(sys.executable).parent / "ansible-playbook")
LOCAL = ("a", "b", "c")
SECONDS = 120.0  # against hanging: a run takes about two
Play = Callable[..., tuple[Ended | None, ProductError | InfraError]]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Run plays on hosts that are all this one, and on `gone`, where nobody listens; return what ended the run.

    killed: whether it is, for which Ansible has to be a process with processes for its tasks.
    """

    def played(
        *tasks: object, killed: bool = False, **keywords: object
    ) -> tuple[Ended | None, ProductError | InfraError]:
        hosts = {name: {"ansible_connection": "local"} for name in LOCAL}
        away = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_ssh_common_args": "-o ConnectTimeout=2"}
        inventory = {"all": {"hosts": {**hosts, "gone": away}}}
        (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
        book = {"hosts": "a", "gather_facts": False, "tasks": list(tasks), **keywords}
        text = keywords.pop("text", None)
        (tmp_path / "play.yml").write_text(str(text) if text else yaml.safe_dump([book]), encoding="utf-8")
        events, log = tmp_path / "events.jsonl", tmp_path / "play.log"
        done = (run if killed else ansible_programs.run)(
            [ANSIBLE, "-i", str(tmp_path / "hosts.yml"), str(tmp_path / "play.yml")],
            timeout=SECONDS,
            check=False,
            log=log,
            env={
                callbacks.EVENTS: str(events),
                "ANSIBLE_CALLBACK_PLUGINS": str(callbacks.FOLDER),
                "ANSIBLE_LOCAL_TEMP": str(tmp_path / "tmp"),
                "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
                "ANSIBLE_NOCOLOR": "1",
            },
        )
        assert done.returncode != 0, done.stdout
        ended = ended_by(events)
        assert "WARNING" not in done.stdout, done.stdout
        return ended, failure_of(done, Path("play.yml"), log, ended)

    return played


def fail(name: str, words: str = "no", **keywords: object) -> dict[str, object]:
    return {"name": name, "ansible.builtin.fail": {"msg": words}, **keywords}


LAST = fail("last", "that is why")
SAID = "task [last] failed on a: that is why"


def test_an_ignored_failure_ends_nothing(play: Play) -> None:
    _, error = play(fail("first", ignore_errors=True), LAST)
    assert (error.summary, type(error)) == (SAID, ProductError)


@pytest.mark.parametrize("depth", [1, 2])
def test_a_rescued_failure_ends_nothing(play: Play, depth: int) -> None:
    inner: dict[str, object] = fail("first")
    for _ in range(depth - 1):
        inner = {"block": [inner]}
    quiet = {"name": "mend", "ansible.builtin.debug": {"msg": "mended"}}
    _, error = play({"block": [inner], "rescue": [quiet], "always": [quiet]}, LAST)
    assert error.summary == SAID


def test_a_rescued_failure_of_an_included_file_ends_nothing(play: Play, tmp_path: Path) -> None:
    (tmp_path / "more.yml").write_text(yaml.safe_dump([fail("first")]), encoding="utf-8")
    quiet = {"name": "mend", "ansible.builtin.debug": {"msg": "mended"}}
    _, error = play({"block": [{"ansible.builtin.include_tasks": "more.yml"}], "rescue": [quiet]}, LAST)
    assert error.summary == SAID


def test_a_failure_in_a_rescue_ends_the_play(play: Play) -> None:
    after = {"name": "after", "ansible.builtin.debug": {"msg": "always"}}
    _, error = play({"block": [fail("first")], "rescue": [LAST], "always": [after]})
    assert error.summary == SAID


def test_a_failed_item_of_a_loop_is_named(play: Play) -> None:
    looped = fail("each", "it is {{ item }}", when="item != 'x'", loop=["x", "y", "z"])
    _, error = play(looped)
    assert error.summary == "task [each] (item y) failed on a: it is y"


def test_a_failed_handler_is_called_one(play: Play) -> None:
    notify = {"name": "change", "ansible.builtin.debug": {"msg": "x"}, "changed_when": True, "notify": "restart"}
    _, error = play(notify, handlers=[fail("restart", "it does not start")])
    assert error.summary == "handler [restart] failed on a: it does not start"


def test_a_host_that_cannot_be_reached_is_the_infras_fault(play: Play) -> None:
    ended, error = play({"name": "ping", "ansible.builtin.ping": {}}, hosts="gone")
    assert isinstance(error, InfraError)
    assert error.summary.startswith("gone could not be reached in task [ping]: ")
    assert ended is not None
    assert ended.hosts == {"gone"}


def test_a_host_that_may_be_unreachable_ends_nothing(play: Play) -> None:
    absent = {"name": "ping", "ansible.builtin.ping": {}, "ignore_unreachable": True, "when": "true"}
    _, error = play(absent, fail("last", "that is why"), hosts="gone,a")
    assert isinstance(error, ProductError)
    assert error.summary.startswith("task [last] failed on")


def test_an_undefined_variable_is_the_tasks_failure(play: Play) -> None:
    _, error = play({"name": "say", "ansible.builtin.debug": {"msg": "{{ nowhere }}"}})
    assert error.summary.startswith("task [say] failed on a: ")
    assert "'nowhere' is undefined" in error.summary


def test_a_command_tells_its_errors(play: Play) -> None:
    script = "echo some output; echo 'error: no such disk' >&2; exit 3"
    _, error = play({"name": "run", "ansible.builtin.shell": script})
    assert error.summary == "task [run] failed on a: non-zero return code; error: no such disk"
    assert error.detail.splitlines() == ["some output", "error: no such disk"]


def test_what_is_not_logged_is_not_told(play: Play, tmp_path: Path) -> None:
    _, error = play(fail("secretive", "hunter2", no_log=True))
    assert "has been hidden" in error.summary
    assert "hunter2" not in (tmp_path / "events.jsonl").read_text(encoding="utf-8")


def test_the_first_of_several_hosts_failures_counts_and_the_others_are_told(play: Play) -> None:
    _, error = play(fail("early", "b only", when="inventory_hostname == 'b'"), fail("late"), hosts="a,b")
    assert error.summary == "task [early] failed on b: b only"
    assert "also: task [late] on a: no" in error.detail


def test_a_tolerated_failure_did_not_end_the_play(play: Play) -> None:
    early = fail("early", "one may", when="inventory_hostname == 'c'")
    late = fail("late", "two may not", when="inventory_hostname == 'b'")
    rest = {"name": "rest", "ansible.builtin.debug": {"msg": "x"}}
    _, error = play(early, late, rest, hosts="a,b,c", max_fail_percentage=50)
    assert error.summary == "task [late] failed on b: two may not"
    assert "also: task [early] on c: one may" in error.detail


def test_a_play_that_ends_with_the_first_failure_names_it(play: Play) -> None:
    early = fail("early", "all end", when="inventory_hostname == 'c'")
    _, error = play(early, LAST, hosts="a,b,c", any_errors_fatal=True)
    assert error.summary == "task [early] failed on c: all end"


def test_a_mistake_of_syntax_is_told_in_ansibles_words(play: Play) -> None:
    ended, error = play(text="- hosts: a\n  tasks:\n    - nonsense_module: {}\n      other_module: {}\n")
    assert ended is None
    assert isinstance(error, ProductError)
    assert "before any task failed: " in error.summary
    assert "conflicting action statements" in error.summary


def test_a_killed_run_is_nobodys_failed_task(play: Play) -> None:
    # The lookup runs in a worker's child: its parent's parent is ansible-playbook.
    parent = "{{ lookup('ansible.builtin.pipe', 'ps -o ppid= -p $PPID') }}"
    doomed = {"name": "long", "ansible.builtin.shell": f"kill -9 {parent}; sleep 1"}
    ended, error = play(fail("first", ignore_errors=True), doomed, killed=True)
    assert ended is None
    assert isinstance(error, InfraRetriable)
    assert error.summary == "ansible-playbook was killed by SIGKILL in task [long]"

"""An executor by hand, with a real ansible-playbook on this host: every way to end, and what it says then."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.operator.execute.inputs import HOSTS
from harness.operator.execute.termination import Termination
from harness.until import Deadline, NotYet, until
from tests.unit.operator.execute.etcd_files import place, snapshot_of, write
from tests.unit.operator.execute.operations import execution, host, write_folder
from tests.unit.programs import VMATRIX, run_loaded

SECONDS = 300.0  # against hanging: a run takes about three
KEEP = {"name": "keep", "ansible.builtin.copy": {"dest": "{{ cluster_kubeconfig_path }}", "content": "{{ kept }}\n"}}


class Hand:
    """A folder of inputs and playbooks, and a person who runs them."""

    def __init__(self, folder: Path) -> None:
        self.inputs, self.playbooks, self.report = folder / "in", folder / "playbooks", folder / "report.json"

    def write(self, *plays: list[dict[str, Any]], **changes: Any) -> None:
        """Write an operation for one machine, which is this host; its plays' names are First, Second ..."""
        write_folder(self.inputs, execution(hosts=(host("cp-0"),), **changes), local=True)
        self.playbooks.mkdir(exist_ok=True)
        (self.playbooks / "ansible.cfg").touch()
        content = [
            {"name": name, "hosts": "all", "gather_facts": False, "tasks": tasks}
            for name, tasks in zip(("First", "Second"), plays, strict=False)
        ]
        (self.playbooks / "cluster.yml").write_text(yaml.safe_dump(content), encoding="utf-8")

    @property
    def argv(self) -> list[str]:
        """Return the command."""
        words = ["operator", "execute", "--from", self.inputs, "--playbooks", self.playbooks, "--report", self.report]
        return [str(word) for word in (VMATRIX, *words)]

    @property
    def end(self) -> Termination:
        """Return what the executor said of its end."""
        found = Termination.parse(self.report.read_text(encoding="utf-8"))
        assert found is not None
        return found

    @property
    def state(self) -> Path:
        """Return the folder of what is kept."""
        return self.inputs / "work" / "state"

    def run(self) -> subprocess.CompletedProcess[str]:
        """Run the command to its end."""
        return run_loaded(self.argv, cwd=Path.cwd())


@pytest.fixture
def hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hand:
    """Return what runs operations in the test's folder, with the control sockets in a short one of its own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return Hand(tmp_path)


def test_an_operation_that_succeeds_keeps_what_its_playbook_keeps(hand: Hand) -> None:
    hand.write([KEEP], [{"name": "say", "ansible.builtin.debug": {"msg": "hello"}}], variables={"kept": "words"})
    done = hand.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "TASK [say]" in done.stdout
    assert (hand.end.outcome, hand.end.blame) == ("succeeded", "")
    assert hand.end.recap["cp-0"].startswith("ok=2 changed=1 unreachable=0 failed=0")
    assert hand.end.revision
    assert (hand.state / "kubeconfig").read_text(encoding="utf-8") == "words\n"


def test_an_operation_that_fails_says_where_and_how_to_see_more(hand: Hand) -> None:
    hand.write([KEEP], [{"name": "Join", "ansible.builtin.fail": {"msg": "refused"}}], variables={"kept": "words"})
    done = hand.run()
    assert done.returncode == 1
    end = hand.end
    assert (end.outcome, end.blame) == ("failed", "product")
    assert (end.play, end.task, end.host) == ("Second", "Join", "cp-0")
    assert end.summary == "task [Join] failed on cp-0: refused"
    assert end.hint == "`vmatrix operator log prod 3` shows all that Ansible said"
    assert end.summary in done.stdout
    assert (hand.state / "kubeconfig").is_file()  # what was kept before is kept still


def test_a_machine_that_does_not_answer_is_the_infrastructures_fault(hand: Hand) -> None:
    hand.write([{"name": "Ask", "ansible.builtin.ping": {}}])
    unreachable = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
    content = {"all": {"hosts": {"cp-0": unreachable}}}
    (hand.inputs / HOSTS).write_text(yaml.safe_dump(content), encoding="utf-8")
    assert hand.run().returncode == 3
    end = hand.end
    assert (end.outcome, end.blame, end.task, end.host) == ("failed", "infra", "Ask", "cp-0")
    assert "could not be reached" in end.summary
    assert "pod reaches its address" in end.hint


WORKER = "$(ps -o sid= -p $$)"  # each of Ansible's processes for a machine leads a session


@pytest.mark.parametrize("victim", [WORKER, f"$(ps -o ppid= -p {WORKER})"])
def test_an_ansible_that_is_killed_is_the_infrastructures_fault_and_tried_again(victim: str, hand: Hand) -> None:
    kill = {"name": "Die", "ansible.builtin.shell": f"kill -9 {victim}"}
    hand.write([KEEP, kill], variables={"kept": "words"})
    assert hand.run().returncode == 75
    end = hand.end
    assert (end.outcome, end.blame, end.play, end.task) == ("failed", "infra", "First", "Die")
    assert "was killed" in end.summary


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_executor_that_is_told_to_end_ends_ansible_and_says_so(number: int, hand: Hand, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    wait = {
        "name": "Wait",
        "ansible.builtin.shell": f"ps -o sid= -p $$ > {pids}.new && mv {pids}.new {pids} && sleep 900",
    }
    hand.write([KEEP], [wait], variables={"kept": "words"})
    child = subprocess.Popen(hand.argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    until(
        lambda: pids.is_file() or child.poll() is not None or NotYet("the task has not begun"),
        deadline=Deadline.after(SECONDS),
        what="the second play's task to begin",
    )
    child.send_signal(number)
    said, _ = child.communicate(timeout=SECONDS)
    assert child.returncode == 75, said
    end = hand.end
    assert (end.outcome, end.blame, end.play, end.task) == ("interrupted", "infra", "Second", "Wait")
    assert (hand.state / "kubeconfig").is_file()
    assert in_session(int(pids.read_text(encoding="utf-8"))) == []


def in_session(leader: int) -> list[int]:
    """Return the processes of a session; those that have ended do not count."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                state, *rest = (path / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            if int(rest[2]) == leader and state != "Z":
                found.append(int(path.name))
    return found


def test_an_operation_whose_time_is_up_says_at_which_task(hand: Hand) -> None:
    hand.write([{"name": "Wait", "ansible.builtin.command": "sleep 900"}], deadline_seconds=4)
    assert hand.run().returncode == 1
    assert "did not end within 2 s; it was at task [" in hand.end.summary


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("operation.json", "{}", "'cluster' is missing"),
        ("hosts.yml", "all: {}", "all.hosts has no machine"),
    ],
)
def test_bad_inputs_change_nothing(file: str, content: str, said: str, hand: Hand) -> None:
    hand.write([KEEP])
    (hand.inputs / file).write_text(content, encoding="utf-8")
    done = hand.run()
    assert done.returncode == 2
    assert (hand.end.outcome, hand.end.blame) == ("failed", "user")
    assert said in hand.end.summary
    assert said in done.stderr
    assert not (hand.inputs / "work").exists()


@pytest.mark.parametrize("entry", ["nothing.yml", "../in/cluster.yml"])
def test_an_entry_that_is_no_playbook_is_refused(entry: str, hand: Hand) -> None:
    hand.write([KEEP], entry=entry)
    assert hand.run().returncode == 2
    assert "there is no playbook" in hand.end.summary


def test_nothing_is_kept_of_a_cluster_that_was_reset(hand: Hand) -> None:
    hand.write([KEEP], operation="reset", variables={"kept": "words"})
    assert hand.run().returncode == 0
    assert list(hand.state.iterdir()) == []


def test_secrets_are_masked_in_what_is_printed(hand: Hand) -> None:
    say = {"name": "say", "ansible.builtin.debug": {"msg": "{{ registry_password }}"}}
    hand.write([say], variables={"registry_password": "correct-horse"})
    done = hand.run()
    assert done.returncode == 0
    assert "[masked]" in done.stdout
    assert "correct-horse" not in done.stdout


def test_only_a_pod_has_a_service_account(hand: Hand) -> None:
    hand.write([KEEP])
    environment = {name: value for name, value in os.environ.items() if name != "KUBERNETES_SERVICE_HOST"}
    done = run_loaded([*hand.argv, "--in-cluster"], cwd=Path.cwd(), env=environment)
    assert done.returncode == 2
    assert "this is not a pod with a service account" in hand.end.summary


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--report", "nowhere/report"], "there is no folder nowhere"),
        (["--kubeconfig", "k", "--in-cluster"], "exclude each other"),
    ],
)
def test_options_that_cannot_be_used_are_refused_before_anything(words: list[str], said: str, hand: Hand) -> None:
    hand.write([KEEP])
    done = run_loaded([*hand.argv, *words], cwd=Path.cwd())
    assert done.returncode == 2
    assert said in done.stderr
    assert not hand.report.exists()


def backing_up(hand: Hand, content: bytes) -> None:
    """Write a backup whose playbook puts a file where the snapshot is to be, and says what it is."""
    source, where = write(hand.inputs.parent / "etcd.db", content), "{{ cluster_etcd_snapshot_path }}"
    say = {"dest": f"{where}.json", "content": '{"member": "cp-0", "revision": 7}'}
    save = {"name": "save", "ansible.builtin.copy": {"src": str(source), "dest": where, "mode": "0600"}}
    hand.write([save, {"name": "say", "ansible.builtin.copy": say}], operation="backup", snapshot=place())


def test_a_backup_says_what_it_has_saved_and_where_it_lies(hand: Hand) -> None:
    backing_up(hand, snapshot_of())
    done = hand.run()
    assert done.returncode == 0, done.stdout + done.stderr
    said = hand.end.snapshot
    assert (said["member"], said["revision"], said["sizeBytes"]) == ("cp-0", 7, len(snapshot_of()))
    assert (hand.inputs / "snapshots" / "prod" / "a.db").read_bytes() == snapshot_of()


def test_a_backup_that_is_not_what_etcd_wrote_fails(hand: Hand) -> None:
    backing_up(hand, snapshot_of()[:-32])
    assert hand.run().returncode == 3
    assert (hand.end.outcome, hand.end.blame, dict(hand.end.snapshot)) == ("failed", "infra", {})
    assert "is not what etcd wrote" in hand.end.summary


def test_a_damaged_snapshot_is_refused_before_the_playbook(hand: Hand) -> None:
    hand.write([KEEP], operation="recover", snapshot=place())
    assert hand.run().returncode == 2
    assert "there is no snapshot prod/a.db in claim claim" in hand.end.summary
    assert not (hand.state / "kubeconfig").exists()


def adopting(hand: Hand, *, content: str) -> Path:
    """Write a takeover whose playbook wants a file with some content, and keeps what a cluster's playbooks keep."""
    wanted = hand.inputs.parent / "setting"
    setting = {"name": "setting", "ansible.builtin.copy": {"dest": str(wanted), "content": content}}
    stored = {**KEEP, "when": "not ansible_check_mode"}
    hand.write([setting], [stored], variables={"kept": "words"}, operation="adopt")
    return wanted


def test_a_cluster_that_is_as_wished_is_taken_over_with_what_is_kept_of_it(hand: Hand) -> None:
    adopting(hand, content="same").write_text("same", encoding="utf-8")
    done = hand.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert (hand.state / "kubeconfig").read_text(encoding="utf-8") == "words\n"


def test_a_cluster_that_differs_is_not_taken_over_and_not_changed(hand: Hand) -> None:
    there = adopting(hand, content="wished")
    there.write_text("running", encoding="utf-8")
    assert hand.run().returncode == 2
    assert (hand.end.outcome, hand.end.blame) == ("failed", "user")
    assert "what runs differs from the object: [setting] on cp-0 would change something" in hand.end.summary
    assert there.read_text(encoding="utf-8") == "running"
    assert not (hand.state / "kubeconfig").exists()

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.machines import probe_program
from harness.machines.probe_program import FOLDERS, ProbedFacts, command, facts_of

SECONDS = 60.0  # a busy host


def printed(*lines: str) -> str:
    return "\n".join(f"vmatrix-probe {line}" for line in lines)


WHOLE = printed("os=Debian GNU/Linux 13 (trixie)", "cpus=4", "memory=2097152", "machine-id=abc", "end=ok")


def test_facts_are_read_between_other_peoples_lines() -> None:
    assert facts_of(f"Welcome to 10% off\nos=fake\n{WHOLE}\nBye\n") == ProbedFacts(
        "Debian GNU/Linux 13 (trixie)", 4, 2048, "abc"
    )


def test_a_machine_that_cloud_init_works_on_boots() -> None:
    found = facts_of(printed("boots=cloud-init", "end=ok"))
    assert found is not None
    assert found.boots


def test_every_trace_counts() -> None:
    found = facts_of(printed("trace=/etc/kubernetes/x=y", "trace=process kubelet", "end=ok"))
    assert found == ProbedFacts("", 0, 0, "", ("/etc/kubernetes/x=y", "process kubelet"))


@pytest.mark.parametrize("text", ["", "Welcome\n", WHOLE.rpartition("\n")[0]])
def test_a_program_that_did_not_end_says_nothing(text: str) -> None:
    assert facts_of(text) is None


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_program_tells_what_this_host_is(shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etcd" / "member").mkdir(parents=True)
    (tmp_path / "kubelet" / "pods").mkdir(parents=True)
    (tmp_path / "etcd" / "member" / "db").touch()
    program = probe_program.PROGRAM
    for folder in FOLDERS:
        program = program.replace(folder, str(tmp_path / folder.rpartition("/")[2]))
    monkeypatch.setattr(probe_program, "PROGRAM", program)
    as_is = command().replace("exec sudo -n sh", "exec sh")  # as on a machine where the user may become root
    done = subprocess.run([shell, "-c", as_is], capture_output=True, text=True, timeout=SECONDS, check=True)
    found = facts_of(done.stdout)
    assert found is not None
    assert [trace for trace in found.traces if not trace.startswith("process ")] == [f"{tmp_path}/etcd/member/db"]
    assert found.cpus >= 1
    assert found.memory_mib > 100
    assert found.machine_id == Path("/etc/machine-id").read_text(encoding="utf-8").strip()
    assert found.os in Path("/etc/os-release").read_text(encoding="utf-8")
    assert done.stderr == ""

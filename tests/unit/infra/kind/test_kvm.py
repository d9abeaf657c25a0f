"""What a run of the guest tells of a host's KVM: outcomes as they were recorded on hosts, and how long one counts."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from harness import proc
from harness.infra.kind import kvm, vmm
from harness.infra.kind.kvm import Kvm, KvmState, Trial, Verdict, choose_kvm, judge_kvm, kvm_findings, read, try_out

SHUT_DOWN = "the processor shut down, as after a fault that its guest cannot handle"
# Recorded: KVM with AMD's extensions (Linux 6.1, processor emulated by QEMU), and a KVM without any (PVM, Linux 6.18).
WORKS = Trial(("R", "P", "L", "H", "M", "F", "U", "T", "S", "done"), 0)
PVM = Trial(("R", "P", "L", "H", "M", "F", SHUT_DOWN), 0)
# Recorded on the latter with a guest that counts to 200 million first.
TOO_SLOW = Trial(("R", "P", "L"), -signal.SIGXCPU)
HELD = Trial(("KVM refused: [Errno 16] Device or resource busy",), 0)


@pytest.mark.parametrize(
    ("trial", "state", "said"),
    [
        (WORKS, KvmState.WORKS, "runs virtual machines"),
        (PVM, KvmState.BROKEN, f"fail at user mode with interrupts and system calls ({SHUT_DOWN})"),
        (TOO_SLOW, KvmState.BROKEN, "far too slowly: they do not get to running in the upper half"),
        (HELD, KvmState.BROKEN, "fail at real mode (KVM refused: [Errno 16] Device or resource busy)"),
        (Trial((*"RPL", "!", "done"), 0), KvmState.BROKEN, "fail at running in the upper half"),
        (Trial(tuple("RPLHMFUTS"), 0), KvmState.BROKEN, "fail at its end"),
        (Trial(("R", "P"), None), KvmState.UNKNOWN, "too busy for the trial to get to long mode with paging"),
        (Trial(("No module named harness",), 1), KvmState.UNKNOWN, "ended with status 1 (No module named harness)"),
        (Trial((), -signal.SIGKILL), KvmState.UNKNOWN, "ended with status -9 (nothing)"),
    ],
)
def test_a_trial_is_read(trial: Trial, state: KvmState, said: str) -> None:
    found = read(trial)

    assert found.state is state
    assert said in found.why


class Counted:
    """A trial that counts how often it is made."""

    def __init__(self, *trials: Trial) -> None:
        self.trials = list(trials)
        self.made = 0

    def __call__(self, _: Path) -> Trial:
        self.made += 1
        return self.trials.pop(0)


@pytest.fixture
def device(tmp_path: Path) -> Path:
    path = tmp_path / "kvm"
    path.touch()
    return path


def look(device: Path, run: Counted) -> Verdict:
    return judge_kvm(device, machine="x86_64", kept=device.with_name("cache") / "kvm.json", run=run)


def test_one_trial_is_enough_for_a_boot(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Counted(PVM, WORKS)

    first = look(device, run)
    assert look(device, run) == first
    assert (first.state, run.made) == (KvmState.BROKEN, 1)

    monkeypatch.setattr(kvm, "boot_id", lambda: "another")
    assert look(device, run).state is KvmState.WORKS
    assert run.made == 2


def test_a_device_that_was_made_anew_is_tried_anew(device: Path) -> None:
    run = Counted(PVM, WORKS)
    look(device, run)

    device.rename(device.with_name("before"))
    device.touch()

    assert look(device, run).state is KvmState.WORKS


def test_what_could_not_be_judged_is_tried_again(device: Path) -> None:
    run = Counted(Trial(("R",), None), WORKS)

    assert [look(device, run).state for _ in range(3)] == [KvmState.UNKNOWN, KvmState.WORKS, KvmState.WORKS]


def test_a_damaged_memory_is_no_verdict(device: Path) -> None:
    kept = device.with_name("cache") / "kvm.json"
    kept.parent.mkdir()
    kept.write_text('{"key": 1')

    assert look(device, Counted(WORKS)).state is KvmState.WORKS


def test_no_device_and_another_architecture_are_told_without_a_trial(tmp_path: Path, device: Path) -> None:
    assert judge_kvm(tmp_path / "none", run=Counted()).state is KvmState.ABSENT
    other = judge_kvm(device, machine="aarch64", run=Counted())
    assert other == Verdict(KvmState.UNKNOWN, "cannot be judged on aarch64: the trial is a program for x86_64")


def test_a_device_that_is_none_is_refused_by_the_real_monitor(device: Path) -> None:
    found = read(try_out(device))

    assert found.state is KvmState.BROKEN
    assert "Inappropriate ioctl for device" in found.why


def test_the_trial_is_complete_where_every_stage_is_said() -> None:
    assert WORKS.lines[:-1] == tuple(vmm.STAGES)


ALL = {state: Verdict(state, f"is {state}") for state in KvmState}


def never() -> Verdict:
    raise AssertionError("nobody asked for a trial")


@pytest.mark.parametrize("state", KvmState)
def test_only_what_is_known_to_work_is_used_by_itself(state: KvmState) -> None:
    found = choose_kvm("auto", lambda: ALL[state])

    assert found.used is (state is KvmState.WORKS)
    assert found.why.startswith(f"/dev/kvm is {state}")
    assert ("hidden" in found.why) is (state in (KvmState.BROKEN, KvmState.UNKNOWN))


def test_the_setting_forces_either_without_a_trial() -> None:
    assert choose_kvm("use", never).used
    assert not choose_kvm("hide", never).used
    assert kvm_findings("hide", never) == []


@pytest.mark.parametrize(
    ("setting", "state", "expected"),
    [
        ("auto", KvmState.WORKS, []),
        ("auto", KvmState.BROKEN, [False]),
        ("auto", KvmState.UNKNOWN, [False]),
        ("auto", KvmState.ABSENT, [False]),
        ("use", KvmState.WORKS, []),
        ("use", KvmState.BROKEN, [False]),
        ("use", KvmState.ABSENT, [True]),
    ],
)
def test_a_person_is_told_before_an_instance_is_made(setting: Kvm, state: KvmState, expected: list[bool]) -> None:
    found = kvm_findings(setting, lambda: ALL[state])

    assert [finding.fatal for finding in found] == expected
    assert all(finding.what == f"/dev/kvm is {state}" for finding in found)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with /dev/kvm and a systemctl and a mknod that write down what they are told."""
    for folder in ("dev", "bin", "etc/systemd/system"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "dev/kvm").touch()
    for program in ("systemctl", "mknod"):
        path = tmp_path / "bin" / program
        made = f"touch {tmp_path}/dev/kvm" if program == "mknod" else ":"
        path.write_text(f'#!/bin/sh\necho {program} "$@" >> {tmp_path}/told\n{made}\n')
        path.chmod(0o755)
    return tmp_path


def inside(node: Path, *words: str) -> proc.Completed:
    there = [word.replace("/dev/kvm", f"{node}/dev/kvm").replace("/etc/", f"{node}/etc/") for word in words]
    return proc.run(there, timeout=30, env={"PATH": f"{node}/bin:/usr/bin:/bin"})


def test_a_hidden_device_is_gone_now_and_at_every_start(node: Path) -> None:
    assert kvm.hide(lambda *words: inside(node, *words)), "it was there"
    assert not kvm.hide(lambda *words: inside(node, *words)), "it was not there any more"

    assert not (node / "dev/kvm").exists()
    unit = (node / f"etc/systemd/system/{kvm.UNIT}").read_text()
    assert "Before=containerd.service kubelet.service" in unit
    command = next(line for line in unit.splitlines() if line.startswith("ExecStart=")).removeprefix("ExecStart=")
    (node / "dev/kvm").touch()
    subprocess.run(command.split(), check=True, timeout=30)
    assert not (node / "dev/kvm").exists()
    assert f"systemctl enable --quiet {kvm.UNIT}" in (node / "told").read_text()


def test_it_can_be_shown_again_and_both_can_be_repeated(node: Path) -> None:
    for _ in range(2):
        kvm.hide(lambda *words: inside(node, *words))
    shown = [kvm.show(lambda *words: inside(node, *words)) for _ in range(2)]

    assert shown == [True, False]
    assert (node / "dev/kvm").exists()
    assert list((node / "etc/systemd/system").iterdir()) == []
    assert (node / "told").read_text().count("mknod") == 1


def test_a_node_that_was_never_touched_stays_as_it_is(node: Path) -> None:
    assert not kvm.show(lambda *words: inside(node, *words))

    assert not (node / "told").exists()

"""The scripts that hide a device and show it again, run by a real shell on a folder in a node's place."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness import proc
from harness.infra.kvm import hiding


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
    assert hiding.hide(lambda *words: inside(node, *words)), "it was there"
    assert not hiding.hide(lambda *words: inside(node, *words)), "it was not there any more"

    assert not (node / "dev/kvm").exists()
    unit = (node / f"etc/systemd/system/{hiding.UNIT}").read_text()
    assert "Before=containerd.service kubelet.service" in unit
    command = next(line for line in unit.splitlines() if line.startswith("ExecStart=")).removeprefix("ExecStart=")
    (node / "dev/kvm").touch()
    subprocess.run(command.split(), check=True, timeout=30)
    assert not (node / "dev/kvm").exists()
    assert f"systemctl enable --quiet {hiding.UNIT}" in (node / "told").read_text()


def test_it_can_be_shown_again_and_both_can_be_repeated(node: Path) -> None:
    for _ in range(2):
        hiding.hide(lambda *words: inside(node, *words))
    shown = [hiding.show(lambda *words: inside(node, *words)) for _ in range(2)]

    assert shown == [True, False]
    assert (node / "dev/kvm").exists()
    assert list((node / "etc/systemd/system").iterdir()) == []
    assert (node / "told").read_text().count("mknod") == 1


def test_a_node_that_was_never_touched_stays_as_it_is(node: Path) -> None:
    assert not hiding.show(lambda *words: inside(node, *words))

    assert not (node / "told").exists()

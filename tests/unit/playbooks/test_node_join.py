"""A node whose kubelet was refused the Services several times has it start again, with its certificate."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness import proc
from tests.unit.playbooks.test_templates import render

REFUSED = (
    'E1127 21:00:22.702600 527 reflector.go:227] "Failed to watch" err="failed to list *v1.Service: services is '
    'forbidden: User \\"system:anonymous\\" cannot list resource \\"services\\" at the cluster scope"'
)
OTHER = REFUSED.replace("*v1.Service:", "*v1.CSIDriver:")
LATE = (
    'E1127 21:00:22.702600 527 reflector.go:227] "Failed to watch" err="failed to list *v1.Service: Get '
    '\\"https://127.0.0.1:6445/api/v1/services?limit=500\\": net/http: TLS handshake timeout"'
)


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the script with which a node joins."""
    place = render("cp1-w1", tmp_path_factory.mktemp("join"), frozenset({"join.sh"}))
    return (place / "join.sh").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("journal", "again"),
    [([], False), ([REFUSED] + [OTHER] * 2, False), ([LATE] * 2, False), ([REFUSED] * 2, True), ([REFUSED] * 4, True)],
)
def test_only_a_kubelet_that_would_ask_late_starts_again(
    journal: list[str], again: bool, script: str, tmp_path: Path
) -> None:
    for name in ("kubernetes", "run/lock", "bin"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "journal").write_text("".join(f"{line}\n" for line in journal), encoding="utf-8")
    for name, text in (
        ("kubeadm", "exit 0"),
        ("journalctl", f'echo "$@" >{tmp_path}/asked; cat {tmp_path}/journal'),
        ("systemctl", f'echo "$@" >>{tmp_path}/units'),
    ):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (tmp_path / "bin" / name).chmod(0o755)
    here = script.replace("/etc/kubernetes/", f"{tmp_path}/kubernetes/").replace("=/run/", f"={tmp_path}/run/")
    here = here.replace("/run/lock/kubeadm", f"{tmp_path}/run/lock/kubeadm")
    path = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    done = proc.run(["sh", "-c", here], timeout=20, stdin="credentials\n", env=path, check=False)
    assert done.returncode == 0, done.stderr
    units = (tmp_path / "units").read_text(encoding="utf-8").splitlines()
    assert units == ["enable --quiet kubelet.service", *(["restart kubelet.service"] if again else [])]
    assert "--unit kubelet.service --since @" in (tmp_path / "asked").read_text(encoding="utf-8")

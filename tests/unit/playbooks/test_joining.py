"""How a control plane joins: what is repeated, what is not, and what an attempt before leaves in the way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness import proc
from tests.unit.playbooks.test_kubeadm import kubeadm, versions
from tests.unit.playbooks.test_templates import render

BUSY = "error: error execution phase etcd-join: context deadline exceeded"
LEADERLESS = "error: error execution phase check-etcd: etcd cluster is not healthy: etcdserver: leader changed"
OTHER = "error: error execution phase preflight: couldn't validate the identity of the API Server"
# Fails with the sentences given to it, one for each call, then joins; notes how it was called.
KUBEADM = """#!/bin/sh
echo "$@" >>{place}/calls
read -r sentence <{place}/sentences || exit 0
sed -i 1d {place}/sentences
{after}
echo "$sentence" >&2
exit 1
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the script with which a further control plane joins."""
    place = render("cp3-w1", tmp_path_factory.mktemp("join"), frozenset({"join-control-plane.sh"}))
    return (place / "join-control-plane.sh").read_text(encoding="utf-8").replace("sleep 5", "sleep 0")


def join(script: str, place: Path, sentences: list[str], after: str = ":") -> proc.Completed:
    """Run the script against a kubeadm that fails with these sentences first, within a folder of its own."""
    for name in ("run/lock", "kubernetes/pki", "kubelet", "bin"):
        (place / name).mkdir(parents=True)
    (place / "sentences").write_text("".join(f"{sentence}\n" for sentence in sentences), encoding="utf-8")
    (place / "kubernetes/kubeadm-join.yml").write_text("controlPlane:\n", encoding="utf-8")
    for name, text in (
        ("kubeadm", KUBEADM.format(place=place, after=after)),
        ("systemctl", f'#!/bin/sh\necho "$@" >>{place}/units\n'),
    ):
        (place / "bin" / name).write_text(text, encoding="utf-8")
        (place / "bin" / name).chmod(0o755)
    here = script.replace("/etc/kubernetes/", f"{place}/kubernetes/").replace("=/run/", f"={place}/run/")
    here = here.replace("/run/lock/kubeadm", f"{place}/run/lock/kubeadm")
    here = here.replace("/var/lib/kubelet/pki/", f"{place}/kubelet/")
    given = "key\napiVersion: v1\n"
    path = {"PATH": f"{place / 'bin'}:{os.environ['PATH']}"}
    return proc.run(["sh", "-c", here], timeout=20, stdin=given, env=path, check=False)


def calls(place: Path) -> list[str]:
    return (place / "calls").read_text(encoding="utf-8").splitlines()


def test_a_join_that_found_etcd_busy_goes_on_and_says_so(script: str, tmp_path: Path) -> None:
    done = join(script, tmp_path, [BUSY, LEADERLESS])
    assert done.returncode == 0, done.stderr
    first, second, third = calls(tmp_path)
    assert "Port-6443" not in first
    assert "Port-6443" in second
    assert second == third
    assert BUSY in done.stderr
    assert LEADERLESS in done.stderr
    assert (tmp_path / "kubernetes/pki/init-done").exists()
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["lock"]


def test_a_join_that_failed_for_another_reason_is_not_repeated(script: str, tmp_path: Path) -> None:
    done = join(script, tmp_path, [OTHER])
    assert done.returncode == 1
    assert OTHER in done.stderr
    assert len(calls(tmp_path)) == 1
    assert not (tmp_path / "kubernetes/pki/init-done").exists()
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["lock"]


def test_an_etcd_that_stays_busy_is_asked_five_times(script: str, tmp_path: Path) -> None:
    done = join(script, tmp_path, [BUSY] * 9)
    assert done.returncode == 1
    assert len(calls(tmp_path)) == 5
    assert not (tmp_path / "kubernetes/pki/init-done").exists()


def test_a_kubelet_that_joined_is_not_begun_again(script: str, tmp_path: Path) -> None:
    done = join(script, tmp_path, [BUSY], after=f"touch {tmp_path}/kubelet/kubelet-client-current.pem")
    assert done.returncode == 0, done.stderr
    first, second = calls(tmp_path)
    assert first.endswith("--skip-phases ")
    assert second.endswith("--skip-phases kubelet-start")
    assert "start kubelet.service" in (tmp_path / "units").read_text(encoding="utf-8").splitlines()


@versions
def test_kubeadm_knows_the_phase_that_is_left_out(version: str, tmp_path: Path) -> None:
    missing = tmp_path / "missing.yml"
    for phases in ("", "kubelet-start"):
        done = proc.run(
            [kubeadm(version), "join", "--config", missing, "--skip-phases", phases], timeout=60, check=False
        )
        assert f"{missing}" in done.stderr, done.stderr
    proc.run([kubeadm(version), "join", "phase", "kubelet-start", "--help"], timeout=60)

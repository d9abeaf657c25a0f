"""A reset is judged by what people and programs leave on a machine, not by what a running system changes by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.validate.machine import state


@pytest.mark.parametrize(
    "path",
    [
        "/run/systemd/system/kubelet.service.d/x.conf",
        "/run/systemd/system/kubelet.service",
        "/run/systemd/system.control/containerd.service.d/50-CPUQuota.conf",
        "/run/systemd/network/10-cni0.network",
        "/run/systemd/resolved.conf.d/kubernetes.conf",
        "/run/udev/rules.d/99-calico.rules",
        "/run/flannel/subnet.env",
        "/var/lib/kubelet/config.yaml",
    ],
)
def test_what_a_deployment_may_leave_is_looked_at(path: str) -> None:
    assert not state.LEFT_OUT.search(path)


@pytest.mark.parametrize(
    "path",
    [
        "/run/systemd/journal/streams/9:12345",
        "/run/systemd/sessions/3",
        "/run/systemd/users/0",
        "/run/systemd/units/invocation:ssh.service",
        "/run/systemd/transient",
        "/run/systemd/transient/session-3.scope",
        "/run/udev/data/n2",
        "/run/user/0/bus",
        "/run/log/journal",
    ],
)
def test_what_a_system_changes_by_itself_is_left_out(path: str) -> None:
    assert state.LEFT_OUT.search(path)


def test_a_drop_in_below_run_is_in_the_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run" / "systemd" / "system" / "kubelet.service.d"
    folder.mkdir(parents=True)
    (folder / "x.conf").write_text("[Service]\n", encoding="utf-8")
    monkeypatch.setattr(state, "TREES", (str(tmp_path),))
    assert str(folder / "x.conf") in state.files()

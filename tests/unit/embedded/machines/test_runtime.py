"""The nspawn command line for each kind of host."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.embedded.machines import cgroups, runtime
from harness.embedded.machines.runtime import Machines
from harness.until import TimedOut

STATUS = "Name:\tx\nCapEff:\t{}\n"


def _argv(*, unified: bool, sys_resource: bool) -> list[str]:
    return runtime.argv(
        name="vmx0-a1",
        hostname="cp-0",
        root=Path("/r"),
        netns="/run/netns/n",
        unified=unified,
        sys_resource=sys_resource,
    )


def test_a_v1_host_tells_the_machines_systemd_to_use_v1() -> None:
    words = _argv(unified=False, sys_resource=True)
    assert words[-3:] == list(runtime.LEGACY_CGROUP_ARGUMENTS)
    assert runtime.environment(unified=False)["SYSTEMD_NSPAWN_UNIFIED_HIERARCHY"] == "0"


def test_a_v2_host_says_nothing_about_control_groups() -> None:
    words = _argv(unified=True, sys_resource=True)
    assert not [word for word in words if "cgroup" in word.lower()]
    assert "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY" not in runtime.environment(unified=True)


def test_a_capability_is_dropped_only_where_the_host_lacks_it() -> None:
    assert "--drop-capability=CAP_SYS_RESOURCE" in _argv(unified=True, sys_resource=False)
    assert "--drop-capability=CAP_SYS_RESOURCE" not in _argv(unified=True, sys_resource=True)


def test_capabilities_are_read_from_the_processs_status() -> None:
    assert runtime.host_has_capability(24, STATUS.format("000001ffffffffff"))
    assert not runtime.host_has_capability(24, STATUS.format("000001fffeffffff"))


@pytest.mark.parametrize(("needed", "frozen"), [(1, True), (3, True), (1000, False)])
def test_a_machine_that_forks_while_it_is_frozen_is_frozen_again(
    needed: int, frozen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel's freezer that has missed a process never gets it by waiting."""
    asked: list[bool] = []
    monkeypatch.setattr(runtime, "FREEZE_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(runtime, "PAUSE_SECONDS", 5.0 if frozen else 0.2)
    monkeypatch.setattr(cgroups, "freeze", lambda _, *, frozen: asked.append(frozen))
    monkeypatch.setattr(cgroups, "is_frozen", lambda _: asked.count(True) >= needed)
    if frozen:
        Machines(tmp_path, 0).pause("a1")
        assert asked == [True, *[False, True] * (needed - 1)]
    else:
        with pytest.raises(TimedOut):
            Machines(tmp_path, 0).pause("a1")
        assert asked[-1], "it stays asked for"

"""The nspawn command line for each kind of host."""

from __future__ import annotations

from pathlib import Path

from harness.embedded.machines import runtime

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

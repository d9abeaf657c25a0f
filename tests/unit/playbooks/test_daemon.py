"""A unit runs with the files that it has now, also where an earlier run was killed before it restarted the unit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.playbooks.playbook_files import run_here

BEGAN = 1_700_000_000  # seconds of the epoch; as systemd says it:
SAID = "Tue 2023-11-14 22:13:20.500000 UTC"
# Knows how units run by their names, and notes what it is asked to do.
SYSTEMCTL = f"""for unit; do :; done
case "$*" in
  "show --timestamp"*)
    case "$unit" in stale*) stale=yes ;; *) stale=no ;; esac
    printf "LoadState=loaded\\nNeedDaemonReload=$stale\\nUnitFileState=enabled\\n"
    printf 'ExecMainStartTimestamp={SAID}\\nActiveEnterTimestamp={SAID}\\nStateChangeTimestamp={SAID}\\n'
    case "$unit" in dead*) echo ActiveState=failed ;; *) echo ActiveState=active ;; esac ;;
  "show "*)
    case "$unit" in *dead*) state=failed ;; *) state=active ;; esac
    printf "LoadState=loaded\\nActiveState=$state\\n" ;;
  *is-enabled*) echo enabled ;;
  *) echo "$@" >>"$place/calls" ;;
esac
"""
# By its unit, what is newer than its process, what it reads again when it is told to, and what has to come of it.
UNITS = {
    "same.service": (["older"], ["older"], []),
    "changed.service": (["older", "newer"], [], ["restart changed.service"]),
    "reread.service": (["older"], ["newer"], ["reload reread.service"]),
    "dead.service": (["older"], [], ["start dead.service"]),
    "stale.service": (["older"], [], ["restart stale.service"]),
}


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return what systemd was asked to do for all units, by Ansible on this host."""
    place = tmp_path_factory.mktemp("daemon")
    for name, written in (("older", BEGAN), ("newer", BEGAN + 1)):
        (place / name).touch()
        os.utime(place / name, (written, written))
    tasks = [
        {
            "ansible.builtin.include_role": {"name": "daemon"},
            "vars": {
                "daemon_unit": unit,
                "daemon_files": [str(place / name) for name in files],
                "daemon_reloaded_files": [str(place / name) for name in reread],
            },
        }
        for unit, (files, reread, _) in UNITS.items()
    ]
    run_here(place, [{"tasks": tasks}], {"systemctl": SYSTEMCTL}, here={})
    return (place / "calls").read_text(encoding="utf-8").replace("'", "").splitlines()


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_is_restarted_or_reloaded_only_for_files_that_are_newer(unit: str, calls: list[str]) -> None:
    assert [call for call in calls if unit in call and not call.startswith("list-unit")] == UNITS[unit][2]


def test_units_are_read_anew_only_for_one_whose_file_changed(calls: list[str]) -> None:
    assert calls.count("daemon-reload") == 1
    assert calls.index("daemon-reload") + 1 == calls.index("restart stale.service")


# How a member of etcd is that does not run, whether systemd has read its unit, and what has to come of it.
MEMBERS = {
    "inactive": ("no", ["start etcd.service"]),
    "activating": ("no", []),
    "failed": ("no", ["start etcd.service"]),
    "activating-stale": ("yes", ["daemon-reload", "restart etcd.service"]),
    "failed-stale": ("yes", ["daemon-reload", "start etcd.service"]),
}
STARTING = """case "$*" in
  "show "*) printf "LoadState=loaded\\nActiveState=${machine%-stale}\\n" ;;
  *list-unit*|*is-enabled*) ;;
  *) echo "$@" >>"$place/$machine.calls" ;;
esac
"""


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with what systemd was asked to do for members of etcd that do not run."""
    place = tmp_path_factory.mktemp("members")
    hosts = {
        name: {"seen": {"ActiveState": name.removesuffix("-stale"), "NeedDaemonReload": stale}}
        for name, (stale, _) in MEMBERS.items()
    }
    include = {"name": "etcd_member", "tasks_from": "start"}
    task = {"ansible.builtin.include_role": include, "vars": {"daemon_seen": "{{ seen }}"}}
    run_here(place, [{"tasks": [task]}], {"systemctl": STARTING}, **hosts)
    return place


@pytest.mark.parametrize("member", MEMBERS)
def test_a_member_that_starts_again_and_again_gets_the_unit_that_is_there(member: str, started: Path) -> None:
    calls = started / f"{member}.calls"
    said = calls.read_text(encoding="utf-8").replace("'", "").splitlines() if calls.exists() else []
    assert said == MEMBERS[member][1]

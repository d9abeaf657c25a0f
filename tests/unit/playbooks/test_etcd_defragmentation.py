"""A step of defragmentation does what its members need, and nothing while one of them is down or corrupt."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.unit.playbooks.playbook_files import check_refusal, run_here

MEBI = 1 << 20
NOSPACE, CORRUPT = ({"memberID": 7, "alarm": alarm} for alarm in (1, 2))
DEFRAGMENT, DISARM = "defrag", "alarm disarm"
COMPACT = "compact --physical 42"
# By a machine's name: the step, its file and what of it is in use and its quota in MiB, the alarms, what is done, and
# what a refusal says. The first machine of a step acts for all.
ROWS: dict[str, tuple[str, tuple[int, int, int], list[dict[str, int]], list[str], str]] = {
    "defragment": ("defragment", (400, 200, 2048), [], [DEFRAGMENT], ""),
    "defragment-few-percent": ("defragment", (1000, 800, 2048), [], [], ""),
    "defragment-few-bytes": ("defragment", (100, 10, 2048), [], [], ""),
    "defragment-alarm": ("defragment", (100, 90, 100), [NOSPACE], [DEFRAGMENT], ""),
    "defragment-corrupt": ("defragment", (400, 200, 2048), [CORRUPT], [], "Remove the machine of such a member"),
    "defragment-down": ("defragment", (400, 200, 2048), [], [], "have no leader or do not answer"),
    "finish-alarm": ("finish", (100, 90, 2048), [NOSPACE], [DISARM], ""),
    "finish-full": ("finish", (100, 98, 100), [NOSPACE], [], "so the alarm NOSPACE stays: delete objects"),
    "prepare-compacted": ("prepare", (100, 90, 100), [NOSPACE], [COMPACT], ""),
}
# Answers as etcdctl does from files of the machine, and notes what changes something.
ETCDCTL = """
while case "$1" in --*) true ;; *) false ;; esac; do
    case "$1" in --endpoints=*) asked=${1#--endpoints=} ;; esac
    shift
done
case "$*" in
    "member list" | "alarm list") exec cat "$place/$machine.$1" ;;
    "endpoint status")
        case "$machine,$asked" in *-down,https://other:2379) echo "context deadline exceeded" >&2; exit 1 ;; esac
        exec sed "s,ENDPOINT,$asked," "$place/$machine.status" ;;
esac
echo "$*" >>"$place/$machine.calls"
case "$machine" in *-compacted) echo "required revision has been compacted" >&2; exit 1 ;; esac
echo '[]'
"""


def answers(row: str) -> dict[str, object]:
    """Return what the row's members say, by what they are asked."""
    _, (size, used, quota), alarms, _, _ = ROWS[row]
    urls = ("https://127.0.0.1:2379", "https://other:2379")
    state = {"header": {"member_id": 7, "revision": 42}, "leader": 7, "dbSize": size * MEBI, "dbSizeInUse": used * MEBI}
    return {
        "member": {"members": [{"ID": number, "clientURLs": [url]} for number, url in enumerate(urls, 7)]},
        "status": [{"Endpoint": "ENDPOINT", "Status": state | {"dbSizeQuota": quota * MEBI}}],
        "alarm": {"alarms": alarms} if alarms else {},
    }


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which the rows ran."""
    return tmp_path_factory.mktemp("etcd")


@pytest.fixture(scope="module")
def said(place: Path) -> str:
    """Return what Ansible said of all rows."""
    for row in ROWS:
        for name, answer in answers(row).items():
            (place / f"{row}.{name}").write_text(json.dumps(answer), encoding="utf-8")
    given = {
        "etcd_defragmentation_program": str(place / "etcdctl"),
        "etcd_defragmentation_first": True,
        "etcd_defragmentation_version": "3.6.8",
        "etcd_defragmentation_releases": [],
    }
    hosts = {row: {"etcd_defragmentation_step": step} for row, (step, *_) in ROWS.items()}
    play = {"tasks": [{"ansible.builtin.include_role": {"name": "etcd_defragmentation"}, "vars": given}]}
    return run_here(place, [play], {"etcdctl": ETCDCTL}, **hosts)


@pytest.mark.parametrize("row", ROWS)
def test_a_step_does_what_its_members_need_or_names_the_remedy(row: str, said: str, place: Path) -> None:
    *_, calls, remedy = ROWS[row]
    check_refusal(said, row, remedy)
    noted = place / f"{row}.calls"
    assert (noted.read_text(encoding="utf-8").splitlines() if noted.exists() else []) == calls


def test_what_is_worth_nothing_changes_nothing(said: str) -> None:
    changed = set(re.findall(r"^changed: \[([\w-]+)\]", said, re.M))
    assert changed == {row for row, (*_, calls, _) in ROWS.items() if calls} - {"prepare-compacted"}

"""A machine drains and uncordons itself with a token that is valid, or is refused with the way to another one."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.playbook_files import PLAYBOOKS, check_refusal, refusal_of, run_here

OLD, NEW = "v1.35.4 containerd://2.4.2 ", "v1.36.3 containerd://2.4.2 "
VALID, ENDED, UNSAID = (
    "{{ lookup('ansible.builtin.template', kubeconfig) }}",
    "# The token ends at 2026-01-01T00:00:00Z\napiVersion: v1\n",
    "apiVersion: v1\nkind: Config\n",  # of an earlier version of the playbooks
)
# By a machine's name: the role, what the node runs, the file of the controller, the machine's record, how it is
# refused, the record afterwards, and what it has the API do.
Row = tuple[str, str, str, str, str, str, str]
ROWS: dict[str, Row] = {
    "drain": ("node_drain", OLD, VALID, "", "", "cordoned\n", "drain"),
    "drain-cordoned": ("node_drain", f"{OLD}true", VALID, "", "", "kept\n", "drain"),
    "drain-unsaid": ("node_drain", OLD, UNSAID, "", "", "cordoned\n", "drain"),
    "drain-ended": (
        "node_drain",
        OLD,
        ENDED,
        "",
        "01-01T00:00:00Z. drain-ended is not drained: run again",
        "",
        "",
    ),
    "drain-none": ("node_drain", OLD, "", "", "no credentials to drain with: run again without --limit", "", ""),
    "uncordon": ("node_uncordon", NEW, VALID, "cordoned\n", "", "", "uncordon"),
    "uncordon-kept": ("node_uncordon", NEW, ENDED, "kept\n", "", "", ""),
    "uncordon-ended": (
        *("node_uncordon", NEW, ENDED, "cordoned\n"),
        *("01-01T00:00:00Z. uncordon-ended stays cordoned: run again without --limit", "cordoned\n", ""),
    ),
    "uncordon-none": (
        *("node_uncordon", NEW, "", "cordoned\n"),
        *("no credentials to uncordon with. uncordon-none stays cordoned: run again", "cordoned\n", ""),
    ),
}
KUBECTL = """case "$*" in
  *" get "*) sed -n "s/^$machine: //p" $place/nodes ;;
  *uncordon*) echo uncordon >>$place/$machine.calls ;;
  *drain*) echo drain >>$place/$machine.calls ;;
esac
"""


def run_rows(place: Path, options: list[str]) -> tuple[str, Path]:
    """Return what Ansible said of all rows in one run, and the folder of the machines' files."""
    (place / "nodes").write_text("".join(f"{name}: {row[1]}\n" for name, row in ROWS.items()), encoding="utf-8")
    for name, row in ROWS.items():
        if row[3]:
            (place / f"{name}.record").write_text(row[3], encoding="utf-8")
    cluster = {"server": "https://x", "certificate-authority-data": "eA=="}
    admin_conf = base64.b64encode(json.dumps({"clusters": [{"cluster": cluster}]}).encode()).decode()
    machine = "{{ place }}/{{ inventory_hostname }}"
    given: dict[str, Any] = {
        "drain_access_admin_conf": {"content": admin_conf},
        "drain_access_token": {"stdout": "aa.bb.cc 2999-12-01T02:03:04Z"},
        "kubeconfig": str(PLAYBOOKS / "roles/drain_access/templates/kubeconfig.yml.j2"),
    }
    for role, record in (("node_drain", "record"), ("node_uncordon", "file")):
        given |= {
            f"{role}_{record}": f"{machine}.record",
            f"{role}_admin_conf": f"{machine}.admin.conf",
            f"{role}_written": f"{machine}.credentials",
            f"{role}_access_path": f"{machine}.drain",
            f"{role}_timeout_scale": 0.1,
        }
    given |= {"node_drain_kubernetes_version": "1.36.3", "node_drain_container_runtime": "containerd://2.4.2"}
    plays = [
        {
            "hosts": ":".join(name for name, row in ROWS.items() if row[0] == role),
            "tasks": [
                {
                    "ansible.builtin.copy": {"dest": f"{machine}.drain", "content": "{{ text }}"},
                    "vars": given,
                    "when": "text != ''",
                    "check_mode": False,
                },
                {"ansible.builtin.include_role": {"name": role}, "vars": given},
            ],
        }
        for role in ("node_drain", "node_uncordon")
    ]
    hosts = {name: {"text": row[2]} for name, row in ROWS.items()}
    return run_here(place, plays, {"kubectl": KUBECTL}, options, **hosts), place


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Return the end of a run."""
    return run_rows(tmp_path_factory.mktemp("drains"), [])


@pytest.mark.parametrize("name", ROWS)
def test_an_ended_token_changes_nothing_and_the_way_to_another_one_is_told(name: str, said: tuple[str, Path]) -> None:
    text, place = said
    *_, remedy, record, calls = ROWS[name]
    check_refusal(text, name, remedy)
    for file, expected in (("record", record), ("calls", calls and f"{calls}\n"), ("credentials", "")):
        path = place / f"{name}.{file}"
        assert (path.read_text(encoding="utf-8") if path.exists() else "") == expected, text


def test_the_file_says_when_its_token_ends(said: tuple[str, Path]) -> None:
    lines = (said[1] / "drain.drain").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# The token ends at 2999-12-01T02:03:04Z"
    assert "      token: aa.bb.cc" in lines


def test_a_run_that_only_looks_needs_no_credentials(tmp_path: Path) -> None:
    text, place = run_rows(tmp_path, ["--check"])
    assert [name for name in ROWS if "fatal" in refusal_of(text, name)] == [], text
    assert [path.name for path in place.glob("*.calls")] == []
    assert (place / "uncordon-ended.record").exists()
    assert not (place / "drain-none.record").exists()

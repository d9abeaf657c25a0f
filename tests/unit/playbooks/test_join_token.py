"""A machine joins with credentials that are valid, or is refused with the way to others."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.unit.playbooks.playbook_files import PLAYBOOKS, load, refusal_of, run_here

# What a join file says of its token, and whether a worker is refused.
TOKENS = {
    "written-now": ("{{ lookup('ansible.builtin.template', discovery) }}", False),
    "ended": ("# The token ends at 2026-01-01T00:00:00Z\napiVersion: v1\n", True),
    "of-an-earlier-run": ("apiVersion: v1\nkind: Config\n", False),
}


def test_a_worker_is_refused_a_token_that_has_ended(tmp_path: Path) -> None:
    cluster = {"server": "https://x", "certificate-authority-data": "eA=="}
    play = {
        "vars": {
            "discovery": str(PLAYBOOKS / "roles/control_plane/templates/discovery.yml.j2"),
            "control_plane_kubeconfig": json.dumps({"clusters": [{"cluster": cluster}]}),
            "control_plane_token": {"stdout": "abcdef.0123456789abcdef"},
            "node_discovery_path": f"{tmp_path}/{{{{ inventory_hostname }}}}.join",
            "node_cri_socket": "unix:///run/none",
            "node_ip": "192.0.2.1",
        },
        "tasks": [
            {
                "ansible.builtin.copy": {"dest": "{{ node_discovery_path }}", "content": "{{ text }}"},
                "check_mode": False,
            },
            {"ansible.builtin.include_role": {"name": "node", "tasks_from": "kubeadm"}},
        ],
    }
    hosts = {name: {"text": text} for name, (text, _) in TOKENS.items()}
    said = run_here(tmp_path, [play], {}, ["--check"], **hosts)
    assert "The token ends at 2" in (tmp_path / "written-now.join").read_text(encoding="utf-8")
    for name, (_, refused) in TOKENS.items():
        remedy = f"2026-01-01T00:00:00Z: run again with --limit control_plane,{name}"
        assert (remedy in refusal_of(said, name)) is refused, said
    assert re.search(
        r"^changed: \[written-now\]", said.split("TASK [node : Note that the join begins]")[1], re.MULTILINE
    ), said


KEY = "0123456789abcdef" * 4
LATER, BEFORE = "2999-01-01T00:00:00Z", "2026-01-01T00:00:00Z"
# By a machine's name: when the token and the certificates' key end, whether an external CA signs, and whether it is
# refused.
ENDS = {
    "valid": (LATER, LATER, False, False),
    "token-ended": (BEFORE, LATER, False, True),
    "key-ended": (LATER, BEFORE, False, True),  # only workers have joined since
    "no-key-needed": (LATER, BEFORE, True, False),
    "unsaid": ("", "", False, False),  # of an earlier version of the playbooks
}


def test_a_control_plane_is_refused_credentials_that_have_ended(tmp_path: Path) -> None:
    (store,) = (
        task
        for block in load(PLAYBOOKS / "roles/control_plane/tasks/files.yml")
        for task in block.get("block", [])
        if task["name"].startswith("Store the key")
    )
    content = store["ansible.builtin.copy"]["content"]
    paths = {name: f"{tmp_path}/{{{{ inventory_hostname }}}}.{name}" for name in ("join", "key")}
    play = {
        "vars": {
            "control_plane_certificate_key": {"stdout": KEY},
            "control_plane_join_needed": True,
            "control_plane_join_cri_socket": "unix:///run/none",
            "control_plane_join_address": "192.0.2.1",
            "control_plane_join_node_ip": "192.0.2.1",
            "control_plane_join_discovery_path": paths["join"],
            "control_plane_join_certificate_key_path": paths["key"],
            "control_plane_join_external_ca": "{{ external }}",
        },
        "tasks": [
            {"ansible.builtin.copy": {"dest": paths["join"], "content": "{{ token }}"}, "check_mode": False},
            {"ansible.builtin.copy": {"dest": paths["key"], "content": "{{ key }}"}, "check_mode": False},
            {"ansible.builtin.include_role": {"name": "control_plane_join", "tasks_from": "begin"}},
        ],
    }
    written = {"written-now": {"token": "a: 1\n", "key": content, "external": False}}
    hosts = written | {
        name: {
            "token": f"# The token ends at {token}\na: 1\n" if token else "a: 1\n",
            "key": f"# The key ends at {key}\n{KEY}\n" if key else f"{KEY}\n",
            "external": external,
        }
        for name, (token, key, external, _) in ENDS.items()
    }
    said = run_here(tmp_path, [play], {}, ["--check", "--diff"], **hosts)
    assert re.fullmatch(rf"# The key ends at 2\S+Z\n{KEY}\n", (tmp_path / "written-now.key").read_text("utf-8"))
    for name, (_, _, _, refused) in ENDS.items():
        remedy = f"what {name} would join with ended at {BEFORE}: run again without --limit, or include"
        assert (remedy in refusal_of(said, name)) is refused, said
    for name in ("written-now", "valid", "unsaid", "no-key-needed"):
        begun = said.split("TASK [control_plane_join : Note that the join begins]")[1]
        assert f"changed: [{name}]" in begun, said

"""A worker joins with a token that is valid, or is refused with the way to another one."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.unit.playbooks.playbook_files import PLAYBOOKS, refusal_of, run_here

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

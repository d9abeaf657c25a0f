"""The keys for Secrets change in steps, in each of which every API server can read what another one wrote."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.playbook_files import run_here

FIRST, SECOND = (base64.b64encode(letter * 32).decode() for letter in (b"a", b"b"))
RELOADED = "apiserver_encryption_config_controller_automatic_reload_last_timestamp_seconds"
# Says when the API server has read its keys, and writes Secrets or refuses them.
KUBECTL = f"""case "$*" in
  *metrics*) echo '{RELOADED}{{apiserver_id_hash="a",status="STATUS"}} READ' ;;
  *replace*) cat >/dev/null; echo replaced >>{{place}}/calls; REPLACED ;;
  *) echo '{{"items": []}}' ;;
esac
"""


@dataclass
class Plane:
    """A control plane whose API server reads its files at once, unless it is told otherwise."""

    place: Path
    answers: dict[str, str] = field(default_factory=lambda: {"STATUS": "success", "READ": "9e+09", "REPLACED": "true"})

    def steps(self, *steps: tuple[str, str], server: bool = False) -> tuple[str, list[list[str]]]:
        """Take steps with a key each; return what Ansible said, and the keys after each step."""
        kubectl = KUBECTL
        for name, value in self.answers.items():
            kubectl = kubectl.replace(name, value)
        tasks: list[dict[str, Any]] = []
        for number, (step, key) in enumerate(steps):
            given = {"encryption_key_step": step, "encryption_key_wanted": key}
            source, seen = f"{self.place}/hardening/encryption.yml", f"{self.place}/seen-{number}"
            tasks += [
                {"ansible.builtin.include_role": {"name": "encryption_key"}, "vars": given},
                {"ansible.builtin.copy": {"src": source, "dest": seen, "remote_src": True, "mode": "0600"}},
            ]
        given = {"encryption_key_folder": f"{self.place}/hardening", "encryption_key_address": "10.0.0.2"}
        done = run_here(
            self.place,
            [{"tasks": tasks, "vars": {**given, "encryption_key_timeout": 1}}],
            {"kubectl": kubectl, "ps": "exit 1"},
            encryption_key_server={"stat": {"exists": server}},
            encryption_key_timeout_scale=0.2,
        )
        seen_files = sorted(self.place.glob("seen-*"))
        return done.stdout, [re.findall(r"secret: (.*)", path.read_text(encoding="utf-8")) for path in seen_files]


@pytest.fixture
def plane(tmp_path: Path) -> Plane:
    """Return a control plane without keys."""
    return Plane(tmp_path)



def test_a_key_changes_in_steps_for_root_alone_and_is_never_printed(plane: Plane) -> None:
    steps = ("known", "used", "rewrite", "only")
    said, keys = plane.steps(("begin", FIRST), *((step, SECOND) for step in steps))
    assert keys == [[FIRST], [FIRST, SECOND], [SECOND, FIRST], [SECOND, FIRST], [SECOND]], said
    assert FIRST not in said
    assert SECOND not in said
    assert (plane.place / "hardening/encryption.yml").stat().st_mode & 0o777 == 0o600
    said, keys = plane.steps(*((step, SECOND) for step in ("begin", *steps)))
    assert keys == [[SECOND]] * 5, said
    assert "changed: " not in re.sub(r"TASK \[ansible.builtin.copy\][^\n]*\n[^\n]*\n", "", said)
    assert (plane.place / "calls").read_text(encoding="utf-8") == "replaced\n"


def test_another_key_is_refused_where_an_api_server_uses_the_first(plane: Plane) -> None:
    said, keys = plane.steps(("begin", FIRST), ("begin", SECOND), server=True)
    assert "[encryption_key : Refuse another key than the one that encrypts]" in said
    assert "rotate-encryption-key.yml" in said
    assert keys == [[FIRST]]


def test_keys_of_a_cluster_that_encrypts_nothing_cannot_change(plane: Plane) -> None:
    said, keys = plane.steps(("known", FIRST))
    assert "run reconfigure.yml" in said
    assert keys == []


def test_the_former_key_stays_until_every_secret_is_written_anew(plane: Plane) -> None:
    plane.answers["REPLACED"] = "exit 1"
    said, keys = plane.steps(("begin", FIRST), ("used", SECOND), ("rewrite", SECOND))
    assert "the former key is kept" in said
    assert keys == [[FIRST], [SECOND, FIRST]]


@pytest.mark.parametrize(("read", "status"), [("1.5e+09", "success"), ("9e+09", "failure")])
def test_no_step_ends_before_the_api_server_has_read_its_keys(read: str, status: str, plane: Plane) -> None:
    plane.answers |= {"READ": read, "STATUS": status}
    said, keys = plane.steps(("begin", FIRST), ("known", SECOND))
    assert "has not read" in said
    assert keys == [[FIRST]]

"""No step of a key's change ends before what it is for is done; a wrong key is refused with the remedy."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment

from tests.unit.playbooks.playbook_files import PLAYBOOKS, check_refusal, load, run_here

FIRST, SECOND = (base64.b64encode(letter * 32).decode() for letter in (b"a", b"b"))
RELOADED = "apiserver_encryption_config_controller_automatic_reload_last_timestamp_seconds"
# Says when the API server has read its keys, and writes Secrets or refuses them, as the machine's name has it.
KUBECTL = f"""status=success read=9e+09
case "$machine" in *-stale) read=1.5e+09 ;; *-failed) status=failure ;; esac
case "$*" in
  *metrics*) echo '{RELOADED}{{apiserver_id_hash="a",status="'$status'"}}' $read ;;
  *replace*) cat >/dev/null; echo replaced >>"$place/$machine.calls"; [ "$machine" != rewrite-refused ] ;;
  *) echo '{{"items": []}}' ;;
esac
"""
LEFT_OUT, MIDDLE = "this run leaves out cp-9", "run rotate-encryption-key.yml, which goes on where it was"
# By a machine's name: its step and key, the keys that it has, those that it has afterwards, and how it is refused.
ROWS: dict[str, tuple[str, str, list[str], list[str], str]] = {
    "begin": ("begin", FIRST, [], [FIRST], ""),
    "begin-other": ("begin", SECOND, [FIRST], [FIRST], "run rotate-encryption-key.yml to change the key"),
    "begin-middle": ("begin", SECOND, [SECOND, FIRST], [SECOND, FIRST], MIDDLE),
    "begin-middle-former": ("begin", FIRST, [FIRST, SECOND], [FIRST, SECOND], MIDDLE),
    "begin-without-server": ("begin", SECOND, [SECOND, FIRST], [SECOND, FIRST], ""),
    "begin-alone": ("begin", FIRST, [FIRST], [FIRST], ""),
    "begin-alone-without-server": ("begin", FIRST, [], [FIRST], ""),
    "begin-alone-plain": ("begin", FIRST, [], [], LEFT_OUT),
    "begin-alone-plain-with-keys": ("begin", FIRST, [FIRST], [FIRST], LEFT_OUT),
    "refuse": ("refuse", FIRST, [FIRST], [FIRST], ""),
    "refuse-plain": ("refuse", FIRST, [], [], ""),
    "refuse-other": ("refuse", SECOND, [FIRST], [FIRST], "run rotate-encryption-key.yml to change the key"),
    "refuse-middle": ("refuse", SECOND, [SECOND, FIRST], [SECOND, FIRST], MIDDLE),
    "refuse-alone-plain": ("refuse", FIRST, [], [], LEFT_OUT),
    "check": ("check", SECOND, [FIRST], [FIRST], ""),
    "check-middle": ("check", SECOND, [SECOND, FIRST], [SECOND, FIRST], ""),
    "check-alone": ("check", SECOND, [FIRST], [FIRST], LEFT_OUT),
    "check-nothing": ("check", FIRST, [], [], "run reconfigure.yml with this cluster_encryption_key first"),
    "known-of-nothing": ("known", FIRST, [], [], "run reconfigure.yml with this cluster_encryption_key first"),
    "known": ("known", SECOND, [FIRST], [FIRST, SECOND], ""),
    "known-stale": ("known", SECOND, [FIRST], [FIRST, SECOND], "the API server has not read"),
    "known-failed": ("known", SECOND, [FIRST], [FIRST, SECOND], "the API server has not read"),
    "used": ("used", SECOND, [FIRST, SECOND], [SECOND, FIRST], ""),
    "rewrite": ("rewrite", SECOND, [SECOND, FIRST], [SECOND, FIRST], ""),
    "rewrite-refused": ("rewrite", SECOND, [SECOND, FIRST], [SECOND, FIRST], "the former key is kept"),
    "only": ("only", SECOND, [SECOND, FIRST], [SECOND], ""),
    "only-same": ("only", SECOND, [SECOND], [SECOND], ""),
}


def file(keys: list[str]) -> str:
    """Return the file of keys as the role writes it."""
    environment = Environment(trim_blocks=True, keep_trailing_newline=True)  # noqa: S701 - YAML
    environment.filters["hash"] = lambda text, kind: hashlib.new(kind, text.encode()).hexdigest()
    text = (PLAYBOOKS / "roles/encryption_key/templates/encryption.yml.j2").read_text(encoding="utf-8")
    return environment.from_string(text).render(encryption_key_new=keys)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Return what Ansible said of all rows in one run, and the folder of the machines' files."""
    place = tmp_path_factory.mktemp("keys")
    hosts: dict[str, dict[str, Any]] = {}
    for name, (step, key, present, _, _) in ROWS.items():
        (place / name).mkdir(mode=0o700)
        if present:
            (place / name / "encryption.yml").write_text(file(present), encoding="utf-8")
            (place / name / "encryption.yml").chmod(0o600)
        hosts[name] = {"encryption_key_step": step, "encryption_key_wanted": key}
        hosts[name] |= {"encryption_key_machines": [name, *(["cp-9"] if "-alone" in name else [])]}
        if "without-server" not in name:
            flag = "" if "plain" in name else f"    - --encryption-provider-config={place}/encryption.yml\n"
            (place / name / "manifest.yaml").write_text(f"    - --secure-port=6443\n{flag}", encoding="utf-8")
    given = {
        "encryption_key_folder": "{{ place }}/{{ inventory_hostname }}",
        "encryption_key_manifest": "{{ place }}/{{ inventory_hostname }}/manifest.yaml",
        "encryption_key_address": "10.0.0.2",
        "encryption_key_timeout": 1,
        "encryption_key_timeout_scale": 0.4,
    }
    play = {"tasks": [{"ansible.builtin.include_role": {"name": "encryption_key"}}], "vars": given}
    return run_here(place, [play], {"kubectl": KUBECTL, "pgrep": "exit 1"}, **hosts), place


@pytest.mark.parametrize("row", ROWS)
def test_a_step_ends_with_its_keys_or_names_the_remedy(row: str, said: tuple[str, Path]) -> None:
    text, place = said
    _, _, _, keys, remedy = ROWS[row]
    written = place / row / "encryption.yml"
    assert re.findall(r"secret: (.*)", written.read_text(encoding="utf-8") if keys else "") == keys
    assert not keys or written.stat().st_mode & 0o777 == 0o600
    check_refusal(text, row, remedy)


def test_no_key_is_printed_and_the_same_keys_are_not_written_again(said: tuple[str, Path]) -> None:
    assert FIRST not in said[0]
    assert SECOND not in said[0]
    assert "changed: [only-same]" not in said[0]


def test_secrets_are_written_once_and_again_only_where_they_were_refused(said: tuple[str, Path]) -> None:
    calls = {
        row: (said[1] / f"{row}.calls").read_text(encoding="utf-8").split() for row in ("rewrite", "rewrite-refused")
    }
    assert {row: len(attempts) for row, attempts in calls.items()} == {"rewrite": 1, "rewrite-refused": 2}


# What each entry that changes what API servers encrypt with refuses before any play of it changes a machine.
LOOKS = {"rotate-encryption-key": ("check", "checkpoint.yml"), "reconfigure": ("refuse", "virtual-address.yml")}


@pytest.mark.parametrize("entry", LOOKS)
def test_an_entry_refuses_before_it_changes_a_machine(entry: str) -> None:
    plays = load(PLAYBOOKS / f"{entry}.yml")
    step, change = LOOKS[entry]
    steps = [play.get("vars", {}).get("encryption_key_step") for play in plays]
    imports = [play.get("ansible.builtin.import_playbook") for play in plays]
    assert steps.index(step) < imports.index(change)

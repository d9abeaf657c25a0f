"""Paths on the controller may begin with ~: every role has them expanded, whatever reads them there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.playbook_files import PLAYBOOKS, load
from tests.unit.playbooks.test_templates import HERE, answered

GROUP_VARS = [load(path) for path in sorted((PLAYBOOKS / "group_vars/all").glob("*.yml"))]
GIVEN: dict[str, Any] = {name: value for file in GROUP_VARS for name, value in file.items()}
CALLERS = {**load(HERE / "variables.yml"), **GIVEN}
# Of the caller's variables, those of paths; what begins with / by default is on machines.
PATHS = sorted(
    name
    for name, value in CALLERS.items()
    if re.fullmatch(r"cluster_\w+_(path|folder)", name) and (name not in GIVEN or not str(value).startswith("/"))
)
NAMED = re.compile(rf"\b({'|'.join(PATHS)})\b(?! [|] expanduser)")
# Roles' variables that are made of them. What the caller said is told to the caller as it is.
MADE = [name for name, value in GIVEN.items() if not name.startswith("cluster_") and re.search(NAMED, str(value))]
EXPANDED = [name for name, value in GIVEN.items() if not name.startswith("cluster_") and " | expanduser" in str(value)]
OF_PREFLIGHT = ["preflight_authority_folder", "preflight_client_folder"]
WAYS: dict[str, dict[str, Any]] = {
    "own-etcd": {},
    "external-ca": {"cluster_external_ca": True},
    "etcd-elsewhere": {"cluster_etcd_endpoints": ["https://192.0.2.1:2379"]},
}


def test_every_path_on_the_controller_is_known() -> None:
    assert {"cluster_kubeconfig_path", "cluster_external_ca_folder", "cluster_etcd_clone_path"} <= {*PATHS}
    assert "cluster_certificates_folder" not in PATHS


@pytest.mark.parametrize("way", WAYS)
def test_a_path_below_the_home_reaches_roles_expanded(way: str) -> None:
    given = {name: f"~/of/{name}" for name in PATHS} | WAYS[way]
    given |= {
        "paths_asked": [*EXPANDED, *MADE, *OF_PREFLIGHT],
        "preflight_request": dict(given),
        "render": {"paths": "../../tests/unit/playbooks/paths.json.j2"},
        "roles": str(PLAYBOOKS / "roles"),
    }
    answer = answered("cp1-w1", given)["paths"]
    made = json.loads(answer) if isinstance(answer, str) else answer
    assert {name: value for name, value in made.items() if "~" in str(value)} == {}
    assert made["control_plane_kubeconfig_path"] == str(Path("~/of/cluster_kubeconfig_path").expanduser())


def test_a_path_that_says_whether_a_cluster_exists_is_expanded() -> None:
    assert NAMED.findall(GIVEN["preflight_cluster_exists"]) == []  # it is true or false, in the home of whoever runs it


def test_plays_hand_no_path_over_as_it_was_given() -> None:
    texts = {
        path.name: re.sub(r"(?m)^ *#.*$|^- name:.*$", "", path.read_text("utf-8")) for path in PLAYBOOKS.glob("*.yml")
    }
    assert {name: found for name, text in texts.items() if (found := NAMED.findall(text))} == {}

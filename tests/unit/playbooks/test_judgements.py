"""What roles make of what they have seen on machines and in the cluster, by Ansible itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit import ansible_programs
from tests.unit.playbooks.playbook_files import PLAYBOOKS, ROLES, module_python, tasks

ANSIBLE = Path(sys.executable).parent / "ansible-playbook"
JUDGEMENTS: list[dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("judgements.yml").read_text(encoding="utf-8")
)


# A fact, because a file for each row would take a process or two.
NOTE = "{{ judged | default({}) | combine({'row NUMBER': wanted | to_json}) }}"


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the variables of every row, by what it is about."""
    place = tmp_path_factory.mktemp("judgements")
    plays = [
        {
            "hosts": "all",
            "gather_facts": False,
            "vars_files": [str(PLAYBOOKS / f"roles/{row['role']}/vars/main.yml")],
            "vars": {**row["given"], "wanted": {name: f"{{{{ {name} }}}}" for name in row["wanted"]}},
            "tasks": [{"ansible.builtin.set_fact": {"judged": NOTE.replace("NUMBER", str(number))}}],
        }
        for number, row in enumerate(JUDGEMENTS)
    ]
    write = {"dest": str(place / "judged"), "content": "{{ judged | to_json }}", "mode": "0600"}
    plays.append({"hosts": "all", "gather_facts": False, "tasks": [{"ansible.builtin.copy": write}]})
    (place / "play.yml").write_text(json.dumps(plays), encoding="utf-8")
    python = f"ansible_python_interpreter={module_python(place)}"
    ansible_programs.run(
        [ANSIBLE, "-i", "here,", "-c", "local", "-e", python, place / "play.yml"],
        timeout=300,
        env={"ANSIBLE_HOME": str(place / "ansible"), "ANSIBLE_FILTER_PLUGINS": str(PLAYBOOKS / "filter_plugins")},
    )
    known = json.loads((place / "judged").read_text(encoding="utf-8"))
    return {row["what"]: json.loads(known[f"row {number}"]) for number, row in enumerate(JUDGEMENTS)}


@pytest.mark.parametrize("row", JUDGEMENTS, ids=lambda row: row["what"])
def test_a_role_judges_what_it_has_seen(row: dict[str, Any], judged: dict[str, Any]) -> None:
    seen = {name: numbered(value, row["wanted"].get(name)) for name, value in judged[row["what"]].items()}
    assert seen == row["wanted"]


def numbered(value: Any, wanted: Any) -> Any:
    """Return a number as one: templates of ansible-core before 2.19 make it a text, and roles convert it."""
    return int(value) if type(wanted) is int and isinstance(value, str) else value


def test_only_a_machine_that_joins_asks_other_machines_for_etcd_before_it_is_healthy() -> None:
    role = next(path for path in ROLES if path.name == "etcd_member") / "tasks"
    asking = {
        (file, task["name"]): task.get("when")
        for file in ("healthy.yml", "restart.yml")
        for task in tasks(role / file)
        if "etcd_member_elsewhere" in str(task)
    }
    assert asking == {("healthy.yml", "Promote a learner"): "etcd_member_learner"}

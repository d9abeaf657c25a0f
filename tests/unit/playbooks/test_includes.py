"""What roles pass on to the tasks and to the roles that they include."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment, nodes

from tests.unit.playbooks.playbook_files import ENTRIES, PARTS, PLAYBOOKS, ROLES, load, tasks
from tests.unit.playbooks.test_references import included
from tests.unit.playbooks.test_roles import GIVEN, conditions, options, texts

PARSER = Environment(autoescape=True, extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"])
# Options of an included role that are not what the including one's of the same kind is.
APART = {
    ("ca_rotation", "control_plane_machines"): "machines of etcd are not nodes",
    ("control_plane_join", "control_plane_skip_phases"): "joins skip fewer phases than the first control plane's init",
}
WORD = re.compile(r"\w+")
roles = pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)


@cache
def base() -> dict[str, Any]:
    """Return what variables stand for wherever nothing else is passed: what the inventory's, and roles', files say."""
    files = [path for folder in ("defaults", "vars") for path in sorted(PLAYBOOKS.glob(f"roles/*/{folder}/main.yml"))]
    common = sorted(PLAYBOOKS.glob("group_vars/all/*.yml"))
    ordered = [path for path in files if path.parent.name == "defaults"] + common
    ordered += [path for path in files if path.parent.name == "vars"]
    return {name: value for path in ordered for name, value in (load(path) or {}).items()}


@cache
def read_by(text: str) -> frozenset[str]:
    """Return the variables that a text's expressions read."""
    if "{{" not in text and "{%" not in text:
        return frozenset()
    tree = PARSER.parse(text.replace("\\", "\\\\"))  # as Ansible does
    return frozenset(node.name for node in tree.find_all(nodes.Name) if node.ctx == "load")


def circle(name: str, passed: Mapping[str, Any], common: Mapping[str, Any]) -> list[str]:
    """Return variables of which each stands for the next, and the last for the first; [] where a name leads to none.

    passed, common: what variables stand for; the first has precedence.
    """
    way: list[str] = []
    done: set[str] = set()

    def follow(variable: str) -> list[str]:
        if variable in way:
            return way[way.index(variable) :]
        if variable in done:
            return []
        way.append(variable)
        value = passed[variable] if variable in passed else common.get(variable)
        for other in sorted({other for text in texts(value) for other in read_by(text)}):
            if circular := follow(other):
                return circular
        way.pop()
        done.add(variable)
        return []

    return follow(name)


@pytest.mark.parametrize(
    ("passed", "common", "expected"),
    [
        ({"etcd_path": "{{ users_path }}"}, {"users_path": "{{ etcd_path }}"}, ["etcd_path", "users_path"]),
        ({"etcd_path": "{{ users_path }}"}, {"users_path": "{{ folder }}", "folder": "{{ etcd_path }}"}, None),
        ({"etcd_path": "{{ etcd_path | default('') }}"}, {}, ["etcd_path"]),
        ({"etcd_path": {"a": ["{{ b.c }}"]}}, {"b": {"c": "{% if etcd_path %}1{% endif %}"}}, ["etcd_path", "b"]),
        ({"etcd_path": "{{ users_path }}"}, {"users_path": "{{ folder }}.etcd", "etcd_path": "{{ folder }}.etcd"}, []),
        ({"etcd_path": "{{ a }}", "folder": "/x"}, {"a": "{{ folder }}", "folder": "{{ etcd_path }}"}, []),
        ({"etcd_path": "users_path"}, {"users_path": "{{ etcd_path }}"}, []),
    ],
)  # fmt: skip
def test_a_circle_is_found(passed: dict[str, Any], common: dict[str, Any], expected: list[str] | None) -> None:
    wanted = ["etcd_path", "users_path", "folder"] if expected is None else expected
    assert circle("etcd_path", passed, common) == wanted


def passing(path: Path, passed: Mapping[str, Any], seen: set[tuple[Path, str]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each task of a file that passes variables, and all of them, also tasks of what is included."""
    key = (path, json.dumps(passed, sort_keys=True))
    if key in seen:
        return
    seen.add(key)
    yield from passing_tasks(path, load(path), passed, seen)


def passing_tasks(
    path: Path, content: list[dict[str, Any]], passed: Mapping[str, Any], seen: set[tuple[Path, str]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the same of tasks of a file."""
    for task in content:
        # What a loop is over has a value before the task begins.
        known = {**passed, **task.get("vars", {})}
        known |= dict.fromkeys((value for key, value in task.get("loop_control", {}).items() if key.endswith("_var")))
        if "vars" in task:
            yield f"{path.parents[1].name}, {path.name}: {task['name']}", known
        for part in PARTS:
            yield from passing_tasks(path, task.get(part, []), known, seen)
        for target in included(path.parents[1], task):
            yield from passing(target, known, seen)


def test_no_variable_that_is_passed_on_stands_for_itself() -> None:
    """Ansible evaluates a variable where it is used, with what is passed there, and without an end in a circle."""
    passed: list[tuple[str, dict[str, Any]]] = [("group_vars, defaults and vars", base())]
    for entry in ENTRIES:
        seen: set[tuple[Path, str]] = set()
        for play in load(entry):
            for role in play.get("roles", []):
                own = {**play.get("vars", {}), **role.get("vars", {})}
                passed.append((f"{entry.name}: {play['name']}", own))
                passed += passing(PLAYBOOKS / "roles" / role["role"] / "tasks/main.yml", own, seen)
    places = {place.split(",")[0] for place, _ in passed}
    assert {"etcd_users", "certificates", "control_plane"} <= places
    circles = {(place, *circle(name, known, base())) for place, known in passed for name in known}
    assert {chain for chain in circles if len(chain) > 1} == set()


@roles
def test_no_loop_of_includes_hangs_on_what_an_earlier_one_of_them_came_to(role: Path) -> None:
    # Ansible decides on every include of a loop before it runs the tasks of the first.
    for path in sorted((role / "tasks").glob("*.yml")):
        for task in tasks(path):
            included = task.get("ansible.builtin.include_tasks")
            if "loop" not in task or included is None:
                continue
            inner = list(tasks(role / "tasks" / str(included)))
            made = {str(one["register"]) for one in inner if "register" in one}
            made |= {name for one in inner for name in one.get("ansible.builtin.set_fact", {})}
            read = " ".join(str(text) for text in conditions({"when": task.get("when", [])}))
            assert [name for name in made if name in read] == [], task["name"]


@roles
def test_a_role_that_includes_tasks_of_another_gives_them_what_it_was_given(role: Path) -> None:
    """Else they take what the inventory says: a clone once began with all that its source is known by.

    Options of two roles are of one kind where their names go on alike: etcd_seed_path, etcd_restore_path.
    """
    for path in sorted((role / "tasks").glob("*.yml")):
        for task in tasks(path):
            for target in included(role, task):
                other = target.parents[1]
                kinds = sorted(kinds_of(role) & kinds_of(other)) if other != role else []
                pairs = [(f"{role.name}_{kind}", f"{other.name}_{kind}") for kind in kinds]
                read = variables_of(target) - task.get("vars", {}).keys() if pairs else set()
                unlike = [theirs for own, theirs in pairs if theirs in read and not are_alike(own, theirs)]
                lacking = [theirs for theirs in unlike if (role.name, theirs) not in APART]
                assert lacking == [], f"{path.name}: {task['name']}"


def kinds_of(role: Path) -> set[str]:
    return {name.removeprefix(f"{role.name}_") for name in options(role)}


def variables_of(target: Path) -> set[str]:
    """Return what a tasks file of a role reads, with files and templates of the role that it leads to."""
    role = target.parents[1]
    internal = load(role / "vars" / "main.yml") or {}
    templates = {path.name: path for path in (role / "templates").rglob("*.j2")}
    reached: set[Path] = set()
    names: set[str] = set()
    pending: list[Path] = [target]
    while pending:
        path = pending.pop()
        reached.add(path)
        whole = path.read_text(encoding="utf-8")
        fresh = {*WORD.findall(whole)}
        while fresh - names:
            names |= fresh
            more = [text for name in fresh & internal.keys() for text in texts(internal[name])]
            whole += " ".join(more)
            fresh = {word for text in more for word in WORD.findall(text)}
        leads = [file for name, file in templates.items() if name in whole]
        if path.suffix == ".yml":
            leads += [file for task in tasks(path) for file in included(role, task) if file.parents[1] == role]
        pending += [file for file in leads if file not in reached]
    return names


def are_alike(mine: str, other: str) -> bool:
    """Tell whether the inventory gives two options one value, and no play another one."""
    values = GIVEN.get(mine), GIVEN.get(other)
    plays = [play.get("vars", {}) for path in ENTRIES for play in load(path)]
    same = values[0] == values[1] or f"{{{{ {other} }}}}" == values[0] or f"{{{{ {mine} }}}}" == values[1]
    return same and not any(mine in given for given in plays)

"""Whatever the playbooks name is there: modules, tasks files, files, templates, filters, tests and variables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ansible.modules
import pytest
from ansible.plugins.loader import filter_loader, test_loader
from jinja2 import Environment, TemplateAssertionError, meta, nodes

from tests.unit.playbooks.playbook_files import ENTRIES, PLAYBOOKS, ROLES, TASK_FILES, load, module, tasks
from tests.unit.playbooks.test_roles import IMPORT, KEYWORDS, QUOTED, conditions, options, texts

MODULES = {path.stem for path in Path(str(ansible.modules.__file__)).parent.glob("*.py")}
PARSER = Environment(autoescape=True, extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"])
PLUGINS = [module(f"filter_plugins/{path.name}") for path in sorted((PLAYBOOKS / "filter_plugins").glob("*.py"))]
FILTERS = {*PARSER.filters, *(plugin.ansible_name for plugin in filter_loader.all())}
FILTERS |= {name.rsplit(".", 1)[-1] for name in FILTERS} | {
    name for own in PLUGINS for name in own.FilterModule().filters()
}
TESTS = {*PARSER.tests, *(plugin.ansible_name for plugin in test_loader.all())}
TESTS |= {name.rsplit(".", 1)[-1] for name in TESTS}
# Jinja refuses names that it does not know.
PARSER.filters |= dict.fromkeys(FILTERS, str)
PARSER.tests |= dict.fromkeys(TESTS, bool)
# What Ansible itself gives to every expression.
GIVEN = {"inventory_hostname", "group_names", "groups", "lookup", "omit", "now", "playbook_dir", "dict", "range"}
WORD = re.compile(r"\{\{ *(\w+) *\}\}")
LOOKUP = re.compile(r"lookup\('ansible\.builtin\.(template|file)', *'([^']+)'")
# Values of options that have no list of choices, because users add to them.
VALUES = {
    "network_plugin_name": [*load(PLAYBOOKS / "group_vars" / "all" / "network_plugins.yml")["cluster_network_plugins"]]
}
FOLDERS = {"template": "templates", "file": "files", "copy": "files"}

files = pytest.mark.parametrize("path", TASK_FILES, ids=lambda path: f"{path.parents[1].name}-{path.stem}")
roles = pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)


def action(task: dict[str, Any]) -> tuple[str, Any]:
    """Return a task's module, without its collection, and what it is given; no module for a block."""
    names = [*(task.keys() - KEYWORDS)]
    return (names[0].removeprefix("ansible.builtin."), task[names[0]]) if names else ("", None)


def included(role: Path, task: dict[str, Any]) -> Iterator[Path]:
    """Yield the tasks files that a task of a role includes, of this role or of another.

    A name that is an option of the role stands for each of its choices, and a loop variable for each word of its loop.
    """
    name, given = action(task)
    if name in ("include_tasks", "import_tasks"):
        yield from (role / "tasks" / file for file in expanded(given, task, role))
    elif name in ("include_role", "import_role"):
        file = f"{str(given.get('tasks_from', 'main')).removesuffix('.yml')}.yml"
        yield from (role.parent / other / "tasks" / file for other in expanded(given["name"], task, role))


def expanded(text: str, task: dict[str, Any], role: Path) -> list[str]:
    """Return what a text with one variable may come to."""
    variable = WORD.search(text)
    if variable is None:
        return [text]
    name = variable[1]
    looped = task.get("loop") if task.get("loop_control", {}).get("loop_var") == name else None
    words = looped if isinstance(looped, list) else VALUES.get(name) or options(role).get(name, {}).get("choices", [])
    return [WORD.sub(word, text) for word in words]


@files
def test_a_task_uses_a_module_that_is_there(path: Path) -> None:
    own = {file.stem for file in (PLAYBOOKS / "library").glob("*.py")}
    assert [name for name, _ in map(action, tasks(path)) if name and name not in MODULES | own] == []


def test_every_tasks_file_is_there_and_is_included() -> None:
    targets = {target for path in TASK_FILES for task in tasks(path) for target in included(path.parents[1], task)}
    assert [str(target) for target in targets if not target.exists()] == []
    main = {path for path in TASK_FILES if path.stem == "main"}
    assert [str(path) for path in TASK_FILES if path not in targets | main] == []


def test_every_role_that_a_play_or_a_variable_names_is_there() -> None:
    plays = [play for path in ENTRIES for play in load(path)]
    named = {str(entry["role"]) for play in plays for entry in play.get("roles", [])}
    applied = [name for play in plays for name in play.get("vars", {}).get("settings_roles", [])]
    assert applied != []
    assert named | {*applied} <= {role.name for role in ROLES}
    assert [play[IMPORT] for play in plays if IMPORT in play and not (PLAYBOOKS / play[IMPORT]).exists()] == []


@roles
def test_every_file_and_template_is_there_and_is_used(role: Path) -> None:
    paths = [path for folder in ("tasks", "vars", "defaults") for path in (role / folder).glob("*.yml")]
    content = [text for path in paths for text in texts(load(path))]
    named = {role / FOLDERS[kind] / file for text in content for kind, file in LOOKUP.findall(text)}
    for path in sorted((role / "tasks").glob("*.yml")):
        for name, given in map(action, tasks(path)):
            if name in FOLDERS and "src" in given and not given.get("remote_src"):
                src = str(given["src"])
                named |= {role / FOLDERS[name] / file for file in (QUOTED.findall(src) if "{{" in src else [src])}
    named = {path for path in named if not re.fullmatch(r"[\d.]+", path.name)}  # a version that it is compared with
    assert [str(path) for path in named if "." in path.name and not path.exists()] == []
    present = [path for folder in ("files", "templates") for path in (role / folder).rglob("*") if path.is_file()]
    words = " ".join(content)
    assert [str(path) for path in present if path.name.split(".")[0] not in words] == []


def settings() -> set[str]:
    """Return every variable that somebody gives: callers by their page, options, results, plays and tasks."""
    page = (PLAYBOOKS.parent / "docs" / "playbooks.md").read_text(encoding="utf-8")
    names = {*re.findall(r"`(?:-e )?(cluster_\w+)", page)}
    names |= {name for path in PLAYBOOKS.glob("group_vars/all/*.yml") for name in load(path)}
    names |= {name for path in ENTRIES for play in load(path) for name in play.get("vars", {})}
    for role in ROLES:
        names |= {*options(role), *(load(role / "vars" / "main.yml") or {})}
        for spec in load(role / "meta" / "argument_specs.yml")["argument_specs"].values():
            names |= {*spec.get("options", {})}
    for path in TASK_FILES:
        for task in tasks(path):
            names |= {*task.get("vars", {}), str(task.get("register"))}
            names |= {str(value) for key, value in task.get("loop_control", {}).items() if key.endswith("_var")}
            name, given = action(task)
            names |= {*given} if name == "set_fact" else set()
    return names


def expressions(path: Path) -> Iterator[nodes.Template]:
    """Yield what a file of tasks, of variables, of plays or a template computes."""
    if path.suffix == ".j2":
        yield PARSER.parse(path.read_text(encoding="utf-8"))
        return
    content = load(path) or {}
    inline = [text for text in texts(content) if "{{" in text or "{%" in text]
    if path.parent.name == "tasks":
        inline += [f"{{{{ {text} }}}}" for task in tasks(path) for text in conditions(task) if "{{" not in text]
    yield from (PARSER.parse(text.replace("\\", "\\\\")) for text in inline)


COMPUTE = [
    *TASK_FILES,
    *ENTRIES,
    *sorted(PLAYBOOKS.glob("group_vars/all/*.yml")),
    *sorted(PLAYBOOKS.glob("roles/*/vars/*.yml")),
    *sorted(PLAYBOOKS.glob("roles/*/templates/**/*.j2")),
]


def test_expressions_use_variables_filters_and_tests_that_are_there() -> None:
    known = settings() | GIVEN
    unknown = []
    for path in COMPUTE:
        for tree in expressions(path):
            names = {name for name in meta.find_undeclared_variables(tree) if not name.startswith("ansible_")}
            unknown += [(str(path.relative_to(PLAYBOOKS)), name) for name in sorted(names - known)]
    assert unknown == []


@pytest.mark.parametrize("text", ["{{ [1] | fold }}", "{{ 1 is foldable }}"])
def test_a_filter_or_a_test_that_is_not_there_is_found(text: str) -> None:
    with pytest.raises(TemplateAssertionError):
        meta.find_undeclared_variables(PARSER.parse(text))

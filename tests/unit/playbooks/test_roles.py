"""Every role says what it takes, and is given that: argument specs, defaults and the one mapping agree."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment, nodes

from tests.unit.playbooks.playbook_files import ENTRIES, PLAYBOOKS, ROLES, TASK_FILES, load, tasks

GIVEN = load(PLAYBOOKS / "group_vars" / "all" / "main.yml")
TYPES: dict[str, type] = {"str": str, "path": str, "bool": bool, "int": int, "float": float, "list": list, "dict": dict}
OWN = {path.stem for path in (PLAYBOOKS / "library").glob("*.py")}
REQUIRED = {"name", "hosts", "become", "gather_facts", "any_errors_fatal", "roles"}
OPTIONAL = {"ignore_unreachable", "serial", "vars"}
IMPORT = "ansible.builtin.import_playbook"
# The entries for what is done to a cluster that is there; the others make one.
LATER = {
    f"{name}.yml"
    for name in (
        "adopt",
        "backup",
        "certificates",
        "clone",
        "defragment-etcd",
        "drill",
        "etcd",
        "etcd-users",
        "reconfigure",
        "rebuild",
        "recover",
        "remove-node",
        "reset",
        "restore",
        "rotate-ca",
        "rotate-encryption-key",
        "scale",
        "upgrade",
        "upgrade-etcd",
    )
}
KEYWORDS = {
    "name", "when", "vars", "register", "changed_when", "failed_when", "check_mode", "no_log", "environment", "block",
    "rescue", "always", "module_defaults", "loop", "loop_control", "ignore_unreachable", "until", "retries", "delay",
    "any_errors_fatal", "diff",
}  # fmt: skip

CONDITIONS = ("when", "failed_when", "changed_when", "until", "that")
# Attributes of results and variables of Ansible that are booleans.
BOOLEANS = {"exists", "ansible_check_mode"}

# Roles whose plays let no machine fail because of another.
UNCOUPLED = {"removal_contact": "its play is not any_errors_fatal", "removal_drain": "its play has one machine"}
# Roles that other roles include with what they take.
INCLUDED = {"daemon", "foreign_nodes", "static_pods"}

roles = pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)


def options(role: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = load(role / "meta" / "argument_specs.yml")["argument_specs"]["main"]["options"]
    return found


@roles
def test_takes_only_variables_named_after_itself(role: Path) -> None:
    defaults = load(role / "defaults" / "main.yml") or {}
    internal = load(role / "vars" / "main.yml") or {}
    assert [name for name in (*options(role), *defaults, *internal) if not name.startswith(f"{role.name}_")] == []


@roles
def test_declares_every_default_and_says_the_same_in_both_places(role: Path) -> None:
    defaults = load(role / "defaults" / "main.yml") or {}
    declared = {name: option["default"] for name, option in options(role).items() if "default" in option}
    assert defaults == declared


@roles
def test_has_defaults_of_the_declared_type(role: Path) -> None:
    for name, option in options(role).items():
        if "default" in option:
            assert isinstance(option["default"], TYPES[option["type"]]), name


@roles
def test_is_given_everything_it_requires(role: Path) -> None:
    if role.name in INCLUDED:
        return
    required = {name for name, option in options(role).items() if option.get("required")}
    assert required - GIVEN.keys() == set()


def test_nothing_is_given_that_no_role_takes() -> None:
    taken = {name for role in ROLES for name in options(role)}
    given = {name for name in GIVEN if not name.startswith(("cluster_", "ansible_"))}
    assert given - taken == set()


@roles
def test_is_used_by_an_entry(role: Path) -> None:
    used = {entry["role"] for path in ENTRIES for play in load(path) for entry in play.get("roles", [])}
    assert role.name in used | INCLUDED


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_an_entry_is_plays_that_list_roles_and_other_entries(path: Path) -> None:
    for play in load(path):
        if "roles" in play:
            assert play.keys() >= REQUIRED
            assert play.keys() <= REQUIRED | OPTIONAL
        else:
            assert {"name", IMPORT} <= play.keys() <= {"name", IMPORT, "when"}


def test_a_cluster_is_made_of_every_component() -> None:
    imported = [play[IMPORT] for play in load(PLAYBOOKS / "cluster.yml")]
    assert sorted(imported) == sorted({path.name for path in ENTRIES} - LATER)


# What else begins a control plane, and the components that it has no use for or has in parts.
BEGIN = {
    "clone.yml": {"checkpoint.yml", "running-version.yml", "control-plane.yml"},
    "rebuild.yml": {"checkpoint.yml", "control-plane.yml"},
}


@pytest.mark.parametrize("name", BEGIN)
def test_whatever_begins_a_control_plane_has_the_components_of_a_cluster(name: str) -> None:
    whole = [play[IMPORT] for play in load(PLAYBOOKS / "cluster.yml")]
    imported = [play[IMPORT] for play in load(PLAYBOOKS / name) if IMPORT in play]
    assert imported == [entry for entry in whole if entry not in BEGIN[name]]


@pytest.mark.parametrize("path", TASK_FILES, ids=lambda path: f"{path.parents[1].name}-{path.stem}")
def test_tasks_keep_the_rules_of_the_house(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert [word for word in ("hostvars", "delegate_to", "ignore_errors", "run_once") if word in text] == []
    for task in tasks(path):
        actions = task.keys() - KEYWORDS
        if "block" in task:
            assert actions == set()
            continue
        assert len(actions) == 1, task["name"]
        action = actions.pop()
        assert action in OWN or action.startswith("ansible.builtin."), f"{action} is not of ansible-core"
        if action.split(".")[-1] in {"command", "shell", "raw"}:
            assert "changed_when" in task or {"creates", "removes"} & set(task[action]), (
                f"{task['name']} does not say when it changes"
            )


@pytest.mark.parametrize("path", TASK_FILES, ids=lambda path: f"{path.parents[1].name}-{path.stem}")
def test_a_failure_that_is_rescued_fails_no_other_machine(path: Path) -> None:
    # Ansible fails all others of a play with any_errors_fatal at once, whatever the rescue comes to.
    if path.parents[1].name in UNCOUPLED:
        return
    for task in tasks(path):
        words = str(task.get("rescue", []))
        if "rescue" in task and "ansible.builtin.fail" not in words and "any_errors_fatal" not in task:
            assert "ansible.builtin.assert" in words, task["name"]
        if "rescue" in task and "any_errors_fatal" not in task:  # they go through it with the one that has failed
            refusals = [inner for inner in nested(task["rescue"]) if "ansible.builtin.fail" in inner]
            silent = "ansible_failed_result is defined"
            assert [inner["name"] for inner in refusals if silent not in str(inner.get("when"))] == []


def nested(block: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the tasks of a block, and those of blocks in it."""
    for task in block:
        yield task
        for part in ("block", "rescue", "always"):
            yield from nested(task.get(part, []))


# What makes a text a program for a shell: its first line, or a statement that spans lines.
PROGRAM = re.compile(r"^(#!|set -e|(if|for|while|until|case) .*[^%}]$|\w+\(\) \{)", re.M)
SHORT = 15  # lines of a program that a template may be
SHELLS = re.compile(r"(^|/)(sh|bash|dash)$")
QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'")  # words of a list in an expression
TEMPLATE = re.compile(r"lookup\('(?:ansible\.builtin\.)?template', *'([^']+)'")


@roles
def test_a_condition_is_a_boolean(role: Path) -> None:
    # ansible-core 2.19 refuses any other value.
    internal = load(role / "vars" / "main.yml") or {}
    flags = {name for name, option in options(role).items() if option["type"] == "bool"}
    files = sorted((role / "tasks").glob("*.yml"))
    found = [(path.name, text) for path in files for task in tasks(path) for text in conditions(task)]
    assert [one for one in found if not is_boolean(expression(one[1]), internal, flags)] == []


COMPUTED = (nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Neg, nodes.Operand)
ORDERED = {"eq", "ne"}  # how a text is compared as well as a number


def texts(value: Any) -> Iterator[str]:
    """Yield every text of a YAML file."""
    if isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from texts(part)
    elif isinstance(value, str):
        yield value


def computed(tree: nodes.Node, numbers: set[str]) -> set[str]:
    """Return the numbers that are computed with as they were given, which is a text with `-e NAME=NUMBER`."""
    places = [node for node in tree.find_all(COMPUTED) if getattr(node, "op", "") not in ORDERED]
    places += [node for node in tree.find_all(nodes.Compare) if {one.op for one in node.ops} - ORDERED]
    return {
        child.name for node in places for child in node.iter_child_nodes() if isinstance(child, nodes.Name)
    } & numbers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ a * 2 }}", {"a"}),
        ("{{ (a | int) * 2 }}", set()),
        ("{{ 3 < a }}", {"a"}),
        ("{{ a > b }}", {"a", "b"}),
        ("{{ c > 1 }}", set()),
        ("{{ a }}", set()),
        ("{{ [1] | select('lt', -a) | list }}", {"a"}),
    ],
)
def test_a_number_that_is_computed_with_is_found(text: str, expected: set[str]) -> None:
    assert computed(Environment(autoescape=True).parse(text), {"a", "b"}) == expected


@roles
def test_a_number_is_one_also_where_it_is_given_as_a_text(role: Path) -> None:
    numbers = {name for name, option in options(role).items() if option["type"] in ("int", "float")}
    files = [path for folder in ("tasks", "vars") for path in sorted((role / folder).glob("*.yml"))]
    inline = [text for path in files for text in texts(load(path)) if "{{" in text or "{%" in text]
    inline += [
        f"{{{{ {text} }}}}"
        for path in files
        if path.parent.name == "tasks"
        for task in tasks(path)
        for text in conditions(task)
        if "{{" not in text
    ]
    templates = [path.read_text(encoding="utf-8") for path in sorted((role / "templates").rglob("*.j2"))]
    parser = Environment(autoescape=True, extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"])
    assert {
        name for text in (*inline, *templates) for name in computed(parser.parse(text.replace("\\", "\\\\")), numbers)
    } == set()


@roles
def test_reads_everything_it_takes(role: Path) -> None:
    folders = ("tasks", "vars", "templates", "files")
    parts = [
        path for folder in folders for path in (role / folder).rglob("*") if path.is_file() and path.suffix != ".pyc"
    ]
    words = {word for path in parts for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}
    assert options(role).keys() - words == set()


# A verb and what an earlier task is about, which no line of a log says.
NAMELESS = re.compile(r"^\w+ (it|them|both|that|this|these|those)( (whole|anew|too))?( to \w+)?(, .*)?$")


def test_the_name_of_a_task_says_what_it_is_about() -> None:
    names = {f"{path.parents[1].name}: {task['name']}" for path in TASK_FILES for task in tasks(path)}
    assert {name for name in names if NAMELESS.match(name.split(": ", 1)[1])} == set()


# Modules that ask the proxy which a machine's environment names, unless they are told not to.
ASKING = ("ansible.builtin.uri", "ansible.builtin.get_url")
ASKS = [(path, task, task[name]) for path in TASK_FILES for task in tasks(path) for name in ASKING if name in task]


def test_requests_are_found() -> None:
    assert len({path.parents[1].name for path, _, _ in ASKS}) > 5


@pytest.mark.parametrize(
    ("path", "task", "options"),
    ASKS,
    ids=lambda value: value.name if isinstance(value, Path) else str(value.get("name", "")),
)
def test_no_proxy_is_asked_for_what_a_machine_or_the_cluster_serves(
    path: Path, task: dict[str, Any], options: dict[str, Any]
) -> None:
    assert options.get("use_proxy") is False, f"{path}: {task['name']}: use_proxy: false, as {options['url']} is ours"


def conditions(task: dict[str, Any]) -> Iterator[str]:
    modules = [value for value in task.values() if isinstance(value, dict)]
    for name in CONDITIONS:
        for place in (task, *modules):
            value = place.get(name, [])
            yield from (str(one) for one in (value if isinstance(value, list) else [value]))


def expression(text: str) -> nodes.Node:
    escaped = text.replace("\\", "\\\\")  # as Ansible does
    output = Environment(autoescape=True).parse("{{ (" + escaped + ") }}").body[0]
    assert isinstance(output, nodes.Output)
    return output.nodes[0]


def is_boolean(node: nodes.Node, internal: dict[str, Any], flags: set[str]) -> bool:
    if isinstance(node, (nodes.And, nodes.Or)):
        return all(is_boolean(part, internal, flags) for part in (node.left, node.right))
    if isinstance(node, nodes.Name) and node.name in internal:
        value = str(internal[node.name]).strip().removeprefix("{{").removesuffix("}}")
        return is_boolean(expression(value), internal, flags)
    if isinstance(node, nodes.Name):
        return node.name in flags | BOOLEANS
    if isinstance(node, nodes.Getattr):
        return node.attr in BOOLEANS
    if isinstance(node, nodes.Filter):
        return node.name == "bool"
    if isinstance(node, nodes.Const):
        return isinstance(node.value, bool)
    return isinstance(node, (nodes.Compare, nodes.Test, nodes.Not))


def program_in(text: str) -> bool:
    """Tell whether a template is a program of a shell of more lines than a reader takes in at once."""
    return PROGRAM.search(text) is not None and len(text.splitlines()) > SHORT


def command_lines(value: Any) -> Iterator[list[str]]:
    """Yield what may be a command line of a YAML file, as its words: lists, also those of expressions, and texts."""
    if isinstance(value, dict):
        for part in value.values():
            yield from command_lines(part)
    elif isinstance(value, list):
        yield [str(part) for part in value]
        for part in value:
            yield from command_lines(part)
    elif isinstance(value, str):
        yield QUOTED.findall(value) if "{{" in value else value.split(maxsplit=2)


def hidden_programs(content: Any, programs: set[str]) -> Iterator[str]:
    """Yield scripts of more than a pipe for `sh -c`, and templates of these programs that a text has.

    content: a task, or variables.
    """
    for words in command_lines(content):
        for shell, option, script in zip(words, words[1:], words[2:], strict=False):
            if SHELLS.search(shell) and option == "-c" and not is_pipe(script):
                yield script
    for text in texts(content):
        yield from (template for template in TEMPLATE.findall(text) if template in programs)


def is_pipe(script: str) -> bool:
    """Tell whether a script is one command, or a pipe of two."""
    return len(re.split(r"&&|\|\||;|\n", script.strip())) == 1 and script.count("|") <= 1


PROGRAM_OF_16 = "set -eu\n" * (SHORT + 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#!/bin/sh\n" + "true\n" * SHORT, True),
        ("#!/bin/sh\n" + "true\n" * (SHORT - 1), False),
        (PROGRAM_OF_16, True),
        ("serves() {\n" + "true\n" * SHORT, True),
        ("key: value\n" * 100, False),
        ("{% for a in b %}\nkey: {{ a }}\n{% endfor %}\n" * 10, False),
    ],
)
def test_a_program_in_a_template_is_found(text: str, *, expected: bool) -> None:
    assert program_in(text) is expected


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ({"ansible.builtin.command": {"argv": ["sh", "-c", "one\ntwo"]}}, True),
        ({"ansible.builtin.command": {"argv": ["/bin/bash", "-c", "one && two"]}}, True),
        ({"ansible.builtin.command": {"argv": ["sh", "-c", "one; two"]}}, True),
        ({"ansible.builtin.command": {"argv": ["sh", "-c", "one | two | three"]}}, True),
        ({"ansible.builtin.command": {"argv": "{{ ['sh', '-c', 'one; two'] }}"}}, True),
        ({"ansible.builtin.command": {"argv": ["sh", "-c", "one | two"]}}, False),
        ({"ansible.builtin.command": {"argv": ["find", "/", "-name", "sh"]}}, False),
        ({"ansible.builtin.command": {"cmd": "{{ lookup('ansible.builtin.template', 'one.sh.j2') }}"}}, True),
        ({"ansible.builtin.copy": {"content": "{{ lookup('ansible.builtin.template', 'one.yml.j2') }}"}}, False),
    ],
)
def test_a_program_in_a_task_is_found(task: dict[str, Any], *, expected: bool) -> None:
    assert (list(hidden_programs(task, {"one.sh.j2"})) != []) is expected


@roles
def test_no_program_is_in_a_template_or_in_a_task(role: Path) -> None:
    templates = {path.name: path.read_text(encoding="utf-8") for path in (role / "templates").rglob("*.j2")}
    assert [name for name, text in templates.items() if program_in(text)] == []
    shells = {name for name, text in templates.items() if name.endswith(".sh.j2") or PROGRAM.search(text)}
    for path in [*sorted((role / "tasks").glob("*.yml")), *sorted((role / "vars").glob("*.yml"))]:
        assert list(hidden_programs(load(path), shells)) == [], path.name
    modules = {name for path in sorted((role / "tasks").glob("*.yml")) for task in tasks(path) for name in task}
    assert modules & {"ansible.builtin.shell", "ansible.builtin.script", "ansible.builtin.expect"} == set()


# Programs that print a secret, and what keeps them from it.
PRINTS: dict[tuple[str, ...], str] = {
    ("kubeadm", "token", "create"): "",
    ("kubeadm", "certs", "certificate-key"): "",
    ("upload-certs",): "--skip-certificate-key-print",
    ("create", "token"): "",
    ("get", "secrets", "--output=json"): "",
}
# What `slurp` reads and modules change in place, of which Ansible shows all. Every other file may have a secret.
OPEN = re.compile(
    r"[.]crt$|_(manifest|manifests|component)\b|/manifests?/|/kubeadm[.]yml$|^/etc/hosts$"
    r"|/(rewritten|drained)$|node_uncordon_file|bootstrap_os_|kubelet_update_file|kubeadm-flags[.]env$"
    r"|ca_rotation_certificates [}]{2}/"
)
# Files for root alone without a secret. Of every other one that is written with its text, `--diff` shows no part.
PRIVATE = re.compile(
    r"/kubeadm(-join)?[.]yml$|/(signing|upgrade|uploaded|config)[.]yml$|openssl[.]cnf$|begin[.]env$|[.](json|crt)$"
    r"|/(rewritten|drained|patches/.*|KubeletConfiguration)$|snapshot[.]db$"
    r"|(record|_mark|hardening_file|clone_objects_file|container_runtime_file[.]dest) [}]{2}$"
)
SHOWN = {f"ansible.builtin.{name}": option for name, option in (
    ("slurp", "src"), ("replace", "path"), ("lineinfile", "path"), ("blockinfile", "path"),
)}  # fmt: skip


def secrets_shown(task: dict[str, Any]) -> Iterator[str]:
    """Yield what of a task Ansible would show and may be a secret."""
    if task.get("no_log") is True:
        return
    command = task.get("ansible.builtin.command", {})
    words = [word for line in command_lines(command) for word in line]
    for printed, silent in PRINTS.items():
        if set(printed) <= set(words) and (not silent or silent not in words):
            yield " ".join(printed)
    for name, option in SHOWN.items():
        path = str(task.get(name, {}).get(option, "")).strip()
        if path and not OPEN.search(path) and (name.endswith("slurp") or task.get("diff") is not False):
            yield path
    for name in ("ansible.builtin.copy", "ansible.builtin.template"):
        options = task.get(name, {})
        hidden = options.get("remote_src") or options.get("content") == "" or task.get("diff") is False
        if "0600" in str(options.get("mode")) and not hidden and not PRIVATE.search(str(options["dest"]).strip()):
            yield str(options["dest"])


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ({"ansible.builtin.command": {"argv": ["kubeadm", "token", "create"]}}, True),
        ({"ansible.builtin.command": {"argv": ["kubeadm", "token", "create"]}, "no_log": True}, False),
        ({"ansible.builtin.command": {"argv": "{{ a + ['create', 'token', 'b'] }}"}}, True),
        ({"ansible.builtin.command": {"argv": ["kubeadm", "init", "phase", "upload-certs"]}}, True),
        ({"ansible.builtin.slurp": {"src": "/etc/kubernetes/admin.conf"}}, True),
        ({"ansible.builtin.slurp": {"src": "/etc/kubernetes/admin.conf"}, "diff": False}, True),
        ({"ansible.builtin.slurp": {"src": "{{ folder }}/ca.crt"}}, False),
        ({"ansible.builtin.replace": {"path": "{{ file.path }}"}}, True),
        ({"ansible.builtin.replace": {"path": "{{ file.path }}"}, "diff": False}, False),
        ({"ansible.builtin.copy": {"dest": "/etc/kubernetes/ca.key", "mode": "0600", "content": "a"}}, True),
        ({"ansible.builtin.copy": {"dest": "/a", "mode": "0600", "remote_src": True}}, False),
        ({"ansible.builtin.template": {"dest": "/a/encryption.yml", "mode": "0600"}}, True),
    ],
)
def test_a_task_that_may_show_a_secret_is_found(task: dict[str, Any], *, expected: bool) -> None:
    assert bool(list(secrets_shown(task))) is expected


def test_no_task_shows_a_secret() -> None:
    found = {
        f"{path.parents[1].name}: {task['name']}": shown
        for path in TASK_FILES
        for task in tasks(path)
        if (shown := list(secrets_shown(task)))
    }
    assert found == {}


UNORDERED = re.compile(r"difference\((?!.*\| sort)", re.DOTALL)  # Ansible has its result in any order


def unordered(texts: Iterable[str]) -> set[str]:
    """Return the expressions that join names in any order: directly, or by a variable that has them so."""
    together = "\n".join(texts)
    values = re.findall(r"^ *(\w+): (?:>-\n *)?\"?\{\{(.*?)\}\}", together, re.MULTILINE | re.DOTALL)
    names = "|".join(name for name, value in values if UNORDERED.search(value)) or "(?!)"
    joined = re.compile(rf"\b({names}) \| join|difference\([^|]*\)(?! \| sort)[^|]* \| join")
    return {text for text in re.findall(r"\{\{(.*?)\}\}", together, re.DOTALL) if joined.search(text)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a: "{{ b | difference(c) }}"\nmsg: "{{ a | join }} are gone"', True),
        ("a: >-\n  {{ b\n     | difference(c) | list }}\nmsg: \"{{ a | join(', ') }} are gone\"", True),
        ('a: "{{ b | difference(c) | sort }}"\nmsg: "{{ a | join }} are gone"', False),
        ("msg: \"{{ b | difference(c) | join(', ') }} are gone\"", True),
        ("msg: \"{{ b | difference(c) | sort | join(', ') }} are gone\"", False),
        ('a: "{{ b | difference(c) }}"\nthat: a | length == 0', False),
    ],
)
def test_names_that_are_joined_in_any_order_are_found(text: str, *, expected: bool) -> None:
    assert bool(unordered([text])) is expected


def test_a_message_names_machines_in_the_same_order_each_time() -> None:
    assert unordered(path.read_text(encoding="utf-8") for path in PLAYBOOKS.rglob("*.yml")) == set()


# Whoever opens a role sees what it does without reading Python. docs/decisions/playbooks-idiomatic.md says of each file
# why no module of ansible-core does it.
PLUGINS, PROGRAMS = 912, 174  # lines of modules and plugins, and of what machines keep
DRILL = {"etcd_keys": 320}  # reads an etcd that it starts and ends, which no task could
DECISION = PLAYBOOKS.parent / "docs/decisions/playbooks-idiomatic.md"


def test_python_of_the_playbooks_stays_little_and_each_file_has_its_reason() -> None:
    plugins = lines_of([*PLAYBOOKS.glob("library/*"), *PLAYBOOKS.glob("*_plugins/*")])
    programs = lines_of(PLAYBOOKS.glob("roles/*/files/*.py"))
    assert len(plugins) > 5
    assert sum(lines for name, lines in plugins.items() if name not in DRILL) <= PLUGINS, plugins
    assert [name for name, most in DRILL.items() if plugins[name] > most] == []
    assert sum(programs.values()) <= PROGRAMS, programs
    decision = DECISION.read_text(encoding="utf-8")
    assert [name for name in plugins if f"- `{name}`" not in decision] == []
    assert [name for name in programs if f"- `{name}.py`" not in decision] == []


def lines_of(files: Iterable[Path]) -> dict[str, int]:
    return {path.stem: len(path.read_text(encoding="utf-8").splitlines()) for path in files if path.is_file()}


OWN_NETWORK = ["--ns", "1", "--nslist", "net"]  # of a machine: what is hosted in its pods has another
BY_NAME = {
    "pgrep": OWN_NETWORK,
    "pkill": OWN_NETWORK,
    "pidof": None,
    "killall": None,
}  # None: it cannot tell them apart


def test_a_component_is_not_taken_for_one_that_somebody_hosts_in_a_pod() -> None:
    """Who waits for the end of every etcd waits forever beside a pod that has an etcd of its own."""
    seen, wrong = 0, []
    for path in PLAYBOOKS.glob("roles/*/tasks/*.yml"):
        for task in tasks(path):
            argv = (task.get("ansible.builtin.command") or {}).get("argv")
            if isinstance(argv, list) and argv[0] in BY_NAME:
                seen += 1
                wanted = BY_NAME[argv[0]]
                start = argv.index("--ns") if "--ns" in argv else 0
                if wanted is None or argv[start : start + len(wanted)] != wanted:
                    wrong.append(f"{path.relative_to(PLAYBOOKS)}: {task['name']}")
            elif isinstance(argv, list) and argv[0] == "ps" and "-C" in argv:
                wrong.append(f"{path.relative_to(PLAYBOOKS)}: {task['name']}")
    assert seen > 5
    assert wrong == []


def test_no_plugin_changes_how_modules_run() -> None:
    assert {path.parent.name for path in PLAYBOOKS.glob("*_plugins/*.py")} == {"callback_plugins", "filter_plugins"}


def test_what_a_role_puts_onto_a_machine_it_takes_back() -> None:
    """Units, and files outside of the folders that a reset removes whole; what another role writes as well is its."""
    removed = load(PLAYBOOKS / "roles/reset/defaults/main.yml")["reset_paths"]
    reset = {name for task in load(PLAYBOOKS / "roles/reset/tasks/main.yml") for name in task.get("loop", [])}
    writers: dict[str, set[str]] = {}
    for path in TASK_FILES:
        if path.stem in {"reset", "restore-files", "absent"}:
            continue
        for task in tasks(path):
            for action in ("ansible.builtin.copy", "ansible.builtin.template"):
                dest = str(task.get(action, {}).get("dest", ""))
                if dest.startswith("/") and not dest.startswith((*removed, "/run/")):
                    writers.setdefault(dest, set()).add(path.parents[1].name)
    assert writers != {}
    able = {name for name in reset if (PLAYBOOKS / "roles" / name / "tasks/reset.yml").exists()}
    assert {dest: names for dest, names in writers.items() if not names & able} == {}

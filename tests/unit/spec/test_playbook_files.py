"""What playbooks name and lack is found before machines exist, and nothing else is taken for that."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.spec.playbook_files import COLLECTIONS, ROLES, Configuration, PlaybookFiles, configuration

NONE = Configuration()


def lay(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "site.yml"


def missing(playbook: Path, known: Configuration = NONE, *, later: bool = False) -> list[str]:
    return list(PlaybookFiles("", lambda: known, later=later).missing(playbook))


def play(text: str) -> str:
    return f"- hosts: all\n  {text}\n"


ROLE = {"roles/web/tasks/main.yml": ""}
# By case: the files, and what is said of each thing that is not there.
LACKING: dict[str, tuple[dict[str, str], list[str]]] = {
    "import_playbook": ({"site.yml": "- import_playbook: sub/cluster.yml\n"}, ["sub/cluster.yml"]),
    "import_playbook, in full": ({"site.yml": "- ansible.builtin.import_playbook: x.yml\n"}, ["x.yml"]),
    "import in an import": (
        {"site.yml": "- import_playbook: a/b.yml\n", "a/b.yml": "- import_playbook: c.yml\n"},
        ["a/c.yml"],
    ),
    "playbook of a collection": ({"site.yml": "- import_playbook: kubernetes_sigs.kubespray.cluster\n"},
                                 ["kubernetes_sigs.kubespray"]),
    "vars_files": ({"site.yml": play("vars_files: [secrets.yml]")}, ["secrets.yml"]),
    "vars_files, one of several": ({"site.yml": play("vars_files: [[a.yml, b.yml]]")}, ["a.yml"]),
    "role": ({"site.yml": play("roles: [web]")}, ["the role web"]),
    "role, as a mapping": ({"site.yml": play("roles: [{role: web, tags: x}]")}, ["the role web"]),
    "role of a collection": ({"site.yml": play("roles: [kubernetes.core.helm]")}, ["kubernetes.core"]),
    "dependency": ({"site.yml": play("roles: [web]"), **ROLE, "roles/web/meta/main.yml": "dependencies: [base]"},
                   ["the role base"]),
    "import_tasks": ({"site.yml": play("tasks: [{import_tasks: t.yml, when: x}]")}, ["t.yml"]),
    "include_tasks": ({"site.yml": play("tasks: [{include_tasks: {file: t.yml}}]")}, ["t.yml"]),
    "include_tasks in a block": ({"site.yml": play("tasks: [{block: [{include_tasks: t.yml}]}]")}, ["t.yml"]),
    "handlers": ({"site.yml": play("handlers: [{import_tasks: t.yml}]")}, ["t.yml"]),
    "include_role": ({"site.yml": play("pre_tasks: [{include_role: {name: web}}]")}, ["the role web"]),
    "import_role of a collection": ({"site.yml": play("tasks: [{import_role: {name: a.b.c}}]")}, ["collection a.b"]),
    "tasks_from": ({"site.yml": play("tasks: [{include_role: {name: web, tasks_from: x}}]"), **ROLE}, ["tasks/x"]),
    "include_vars": ({"site.yml": play("tasks: [{include_vars: v.yml}]")}, ["v.yml"]),
    "in a role": ({"site.yml": play("roles: [web]"), "roles/web/tasks/main.yml": "- include_tasks: setup.yml"},
                  ["setup.yml"]),
    "in a file of a role": (
        {"site.yml": play("roles: [web]"), "roles/web/tasks/main.yml": "- import_tasks: a.yml",
         "roles/web/tasks/a.yml": "- include_role: {name: base}"},
        ["the role base"],
    ),
}  # fmt: skip


# What Ansible would refuse on machines: a playbook's text, and what is said of it.
MALFORMED = {
    "- hosts: [all\n": "site.yml:2: malformed YAML: a list in brackets without a comma or without its ]",
    "- hosts: all\n\ttasks: []\n": "site.yml:2: malformed YAML: indent with spaces, not with tabs",
    "- hosts: all\n---\n- hosts: all\n": "site.yml:2: malformed YAML: the file has a second document",
    "<<<<<<< HEAD\n- hosts: all\n=======\n": "site.yml:1: malformed YAML: lines of a merge that is not finished",
    "- hosts: all\n  vars: {a: *b}\n": "site.yml:2: malformed YAML: an alias of an anchor that does not exist",
    "- hosts: all\n  vars: {a: !vault x, b: !unsafe '{{ c }}'}\n": "",
    "$ANSIBLE_VAULT;1.1;AES256\n3030\n": "",
    **dict.fromkeys(("", "# later\n", "---\n", "~\n", "[]\n"), "site.yml:1: no play in it; write one"),
    **dict.fromkeys(("hosts: all\n", "hello\n", "--- 1\n"), "site.yml:1: not a list of plays"),
    **dict.fromkeys(("- hello\n", "-\n", "- [hosts, all]\n", "- 1\n"), "site.yml:1: an entry that is not a play"),
    "- hosts: all\n- {}\n": "site.yml:2: a play without `hosts`; give it `hosts`, such as",
    "- name: x\n  tasks: []\n": "site.yml:1: a play without `hosts`; give it",
    "# tasks\n- debug: {msg: x}\n": "site.yml:2: a play without `hosts` (it has debug); give it",
    "- host: all\n  become: true\n": "site.yml:1: a play without `hosts` (it has host, become); give it",
    **dict.fromkeys(
        ("- hosts:\n", "- hosts: ''\n", "- hosts: '  '\n", "- hosts: []\n", "- hosts: [~]\n", "- hosts: [a, '']\n"),
        "site.yml:1: `hosts` names nothing; give it",
    ),
    "- name: x\n  hosts: {a: b}\n": "site.yml:2: `hosts` has a mapping; put a template in quotes",
    "- hosts: {{ group }}\n": "site.yml:1: `hosts` has a mapping; put a template in quotes",
    **dict.fromkeys(("- hosts: 1\n", "- hosts: yes\n", "- hosts: 2026-01-01\n"), "site.yml:1: `hosts` is a number, a"),
    "- import_playbook:\n": "site.yml:1: `import_playbook` names no playbook",
    "- hosts: all\n  tasks: {debug: {}}\n": "site.yml:2: `tasks` of a play is not a list",
    "- hosts: all\n  roles: web\n": "site.yml:2: `roles` of a play is not a list",
    "- hosts: all\n  tasks:\n": "",
    "- &p\n  hosts: all\n- <<: *p\n  gather_facts: false\n": "",
    "- hosts: [all, '!x']\n- hosts: !unsafe a\n- hosts: '{{ x }}'\n": "",
}


@pytest.mark.parametrize("text", MALFORMED)
def test_a_playbook_that_ansible_would_not_begin(tmp_path: Path, text: str) -> None:
    site = lay(tmp_path, {"site.yml": text, "above.yml": "- import_playbook: site.yml\n"})
    for playbook in (site, tmp_path / "above.yml"):
        said = missing(playbook)
        assert len(said) == bool(MALFORMED[text])
        assert all(MALFORMED[text] in one for one in said)


def test_a_playbook_that_is_not_utf_8(tmp_path: Path) -> None:
    (tmp_path / "site.yml").write_bytes("- hosts: all\n".encode("utf-16"))
    (said,) = missing(tmp_path / "site.yml")
    assert "site.yml is UTF-16 text; only UTF-8 is read: iconv" in said


@pytest.mark.parametrize("case", LACKING)
def test_what_is_named_and_not_there(tmp_path: Path, case: str) -> None:
    files, expected = LACKING[case]
    said = missing(lay(tmp_path, files))
    assert len(said) == len(expected)
    for line, words in zip(said, expected, strict=True):
        assert words in line
        assert line.startswith(str(tmp_path))


THERE: dict[str, dict[str, str]] = {
    "all of it": {
        "site.yml": "- import_playbook: a.yml\n" + play("vars_files: [v.yml, [no.yml, w]]\n  roles: [web, ./near]"),
        "a.yml": play("tasks: [{include_tasks: t.yml}, {include_vars: {file: w}}]"),
        "t.yml": "- import_role: {name: web, tasks_from: x}\n",
        "vars/v.yml": "",
        "vars/w.yaml": "",
        "near/tasks/main.yml": "",
        "roles/web/tasks/main.yml": "- include_tasks: x.yml\n- include_vars: own.yml\n",
        "roles/web/tasks/x.yml": "- include_role: {name: web}\n",
        "roles/web/vars/own.yml": "",
    },
    "templates": {
        "site.yml": '- import_playbook: "{{ x }}.yml"\n'
        + play('vars_files: ["{{ os }}.yml"]\n  roles: ["{{ r }}"]\n  tasks: [{include_tasks: "{{ t }}"}]')
    },
    "conditions": {
        "site.yml": play(
            "tasks: [{include_tasks: t.yml, when: x}, {include_role: {name: r}, loop: [1]},"
            " {block: [{include_vars: v.yml}], when: x}]"
        )
    },
    "directories of variables": {"site.yml": play("tasks: [{include_vars: {dir: vars}}]")},
    "collections of the play": {"site.yml": play("collections: [a.b]\n  roles: [c]")},
    "ansible's own": {"site.yml": play("tasks: [{ansible.builtin.debug: {msg: x}}]\n  roles: []")},
    "null": {"site.yml": "- hosts: all\n  tasks:\n  roles:\n  vars_files:\n"},
    "a long name": {"site.yml": play("tasks: [{include_tasks: '{{ x }}" + "x" * 300 + "'}]")},
}


@pytest.mark.parametrize("case", THERE)
def test_what_is_there_or_cannot_be_known(tmp_path: Path, case: str) -> None:
    assert missing(lay(tmp_path, THERE[case])) == []


def test_roles_and_collections_where_ansible_looks_for_them(tmp_path: Path) -> None:
    playbook = lay(
        tmp_path / "product",
        {"site.yml": play("roles: [web, kubernetes.core.helm]"), "../roles/web/tasks/main.yml": "",
         "../lib/ansible_collections/kubernetes/core/MANIFEST.json": "{}"},
    )  # fmt: skip
    known = Configuration({ROLES: [str(tmp_path / "roles")], COLLECTIONS: [str(tmp_path / "lib")]})
    assert missing(playbook, known) == []
    assert len(missing(playbook)) == 2


def test_what_a_file_of_requirements_brings_is_not_judged_yet(tmp_path: Path) -> None:
    playbook = lay(tmp_path, {"site.yml": play("roles: [web, a.b.c]\n  vars_files: [v.yml]")})
    assert ["v.yml" in line for line in missing(playbook, later=True)] == [True]


def test_a_name_that_no_file_system_takes(tmp_path: Path) -> None:
    playbook = lay(tmp_path, {"site.yml": play(f"roles: [{'r' * 300}]\n  vars_files: [{'x' * 300}]")})
    assert len(missing(playbook)) == 2


def test_an_ansible_without_ansible_config_is_helped_out_by_ours(tmp_path: Path) -> None:
    (tmp_path / "ansible.cfg").write_text("[defaults]\nroles_path = own\n", encoding="utf-8")
    env = {"ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg")}
    known = configuration(tmp_path / "nowhere", tmp_path, env, ssh=False)
    assert known.listed(ROLES) == [str(tmp_path / "own")]
    assert known.ssh == {}


@pytest.mark.parametrize("text", ["no section\n", "[defaults]\nforks = many\n"])
def test_a_file_that_ansible_refuses_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "ansible.cfg").write_text(text, encoding="utf-8")
    assert configuration(tmp_path, tmp_path, {"ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg")}).listed("nope") == []


# What is a part of itself, and the key that a mistake names; "" where Ansible reads it while tasks run, or twice.
CYCLES: dict[str, tuple[dict[str, str], str]] = {
    "a role's own dependency": ({"roles/web/meta/main.yml": "dependencies: [web]"}, "dependencies"),
    "dependencies of each other": (
        {"roles/web/meta/main.yml": "dependencies: [{role: base}]", "roles/base/meta/main.yml": "dependencies: [web]"},
        "dependencies",
    ),
    "dependencies of a role that is included": (
        {"roles/web/tasks/main.yml": "- include_role: {name: base}",
         "roles/base/meta/main.yml": "dependencies: [base]"},
        "dependencies",
    ),
    "a playbook": ({"site.yml": "- import_playbook: site.yml"}, "import_playbook"),
    "playbooks": ({"site.yml": "- import_playbook: a/b.yml", "a/b.yml": "- import_playbook: ../site.yml"},
                  "import_playbook"),
    "tasks": ({"roles/web/tasks/main.yml": "- import_tasks: main.yml"}, "import_tasks"),
    "tasks, with others between": (
        {"roles/web/tasks/main.yml": "- import_tasks: a.yml", "roles/web/tasks/a.yml": "- import_tasks: main.yml"},
        "import_tasks",
    ),
    "a role that imports itself": ({"roles/web/tasks/main.yml": "- import_role: {name: web}"}, "import_role"),
    "tasks that include themselves": ({"roles/web/tasks/main.yml": "- include_tasks: main.yml"}, ""),
    "an import that includes": (
        {"roles/web/tasks/main.yml": "- import_tasks: a.yml", "roles/web/tasks/a.yml": "- include_tasks: main.yml"}, "",
    ),
    "a role that includes itself": ({"roles/web/tasks/main.yml": "- include_role: {name: web}"}, ""),
    "roles that include each other": (
        {"roles/web/tasks/main.yml": "- include_role: {name: base}",
         "roles/base/tasks/main.yml": "- include_role: {name: web}",
         "roles/base/meta/main.yml": "dependencies: [other]", "roles/web/meta/main.yml": "dependencies: [other]"},
        "",
    ),
    "a dependency of two": (
        {"roles/web/meta/main.yml": "dependencies: [base, other]", "roles/base/meta/main.yml": "dependencies: [other]"},
        "",
    ),
    "a playbook twice": ({"site.yml": "- import_playbook: a.yml\n- import_playbook: a.yml",
                          "a.yml": play("roles: [web]")}, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", CYCLES)
def test_what_is_a_part_of_itself(tmp_path: Path, case: str) -> None:
    files, key = CYCLES[case]
    roles = {f"roles/{name}/tasks/main.yml": "" for name in ("web", "base", "other")}
    said = missing(lay(tmp_path, {"site.yml": play("roles: [web]"), **roles, **files}))
    assert [f"under `{key}`, which it is a part of" in line for line in said] == ([True] if key else [])

"""A product whose phases are programs: what is right, and one message at its line for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.spec import load_spec, product_files
from tests.unit.spec.conftest import MATRIX, TODAY, edit, mistakes

PRODUCT = """\
product:
  name: the product
  kind: command
  directory: deploy
  phases:
    deploy:
      command: [./install.sh, "--all", "{sources}/x"]
      environment: {TF_LOG: debug}
      working_directory: modules
    upgrade:
      command: [sh, -c, "echo upgrade"]
  sources: {path: elsewhere}
  vars: {cluster_kubernetes_version: "1"}
"""


@pytest.fixture
def programs(matrix: Path) -> Path:
    """A small matrix whose product is programs."""
    (matrix / "product.yml").write_text(PRODUCT, encoding="utf-8")
    (matrix.parent / "deploy" / "modules").mkdir(parents=True)
    (matrix.parent / "elsewhere").mkdir()
    program = matrix.parent / "deploy" / "install.sh"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    return matrix


def test_programs_are_a_product(programs: Path) -> None:
    assert mistakes(programs) == []
    product = load_spec(programs).product
    deploy, upgrade = product.phases["deploy"], product.phases["upgrade"]
    assert deploy.command == ("./install.sh", "--all", "{sources}/x")
    assert (deploy.program, upgrade.program) == ("./install.sh", None)
    assert dict(deploy.environment) == {"TF_LOG": "debug"}


def test_a_product_is_playbooks_unless_it_says_so(programs: Path) -> None:
    (programs / "product.yml").write_text(MATRIX["product.yml"], encoding="utf-8")
    assert load_spec(programs).product.kind == "ansible"


KINDS = {
    "a program that is not there": (
        *("./install.sh", "./instal.sh"),
        "deploy.command[0]: the program deploy/instal.sh does not exist; create it, or remove the phase",
    ),
    "a folder": (
        *("./install.sh", "./modules"),
        "deploy.command[0]: the program deploy/modules is not a file",
    ),
    "a path that cannot be": (
        *("./install.sh", "./" + "x" * 5000),
        "deploy.command[0]: the program deploy/xxx",
    ),
    "a program that nobody installed": (
        *("[sh, -c", "[no-such-program, -c"),
        "upgrade.command[0]: no folder of the PATH has the program no-such-program; install it, or write "
        "./no-such-program",
    ),
    "a path where a name was meant": (
        *("[./install.sh", "[install.sh"),
        "deploy.command[0]: no folder of the PATH has the program install.sh; install it, or write ./install.sh",
    ),
    "an empty command": (
        *('[sh, -c, "echo upgrade"]', "[]"),
        "upgrade.command: expected at least 1",
    ),
    "a command as one text": (
        *('[sh, -c, "echo upgrade"]', "sh"),
        "upgrade.command: expected a list, got 'sh'",
    ),
    "no program": (
        *('upgrade:\n      command: [sh, -c, "echo upgrade"]', "upgrade: {paths: [x/**]}"),
        "upgrade.command: missing; this key is required",
    ),
    "a playbook": (
        *('command: [sh, -c, "echo upgrade"]', "playbook: cluster.yml"),
        "upgrade.playbook: is for products of kind `ansible`; write `command`, or set `kind: ansible` of the product",
    ),
    "a playbook, too": (
        *("working_directory: modules", "playbook: cluster.yml"),
        "deploy.playbook: the phase has `command`, too, as the product's kind asks; remove `playbook`",
    ),
    "arguments for Ansible": (
        *("working_directory: modules", "args: [--diff]"),
        "deploy.args: belongs to kind ansible; this product is of kind command",
    ),
    "a folder to run in that is not there": (
        *("directory: modules", "directory: moduls"),
        "deploy.working_directory: the directory deploy/moduls does not exist",
    ),
    "a variable of ours": (
        *("TF_LOG", "VMATRIX_CELL"),
        "deploy.environment.VMATRIX_CELL: names that begin with VMATRIX_ are vmatrix's own; use another one",
    ),
    "a variable that is not a name": (
        *("TF_LOG", "TF-LOG"),
        "deploy.environment.TF-LOG: expected the name of a variable",
    ),
    "a number in the environment": (
        *("TF_LOG: debug", "TF_LOG: 1"),
        "deploy.environment.TF_LOG: expected a string, got 1; put it in quotes",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_mistake_is_said_once_at_its_line(kind: str, programs: Path) -> None:
    old, new, message = KINDS[kind]
    line = edit(programs / "product.yml", old, new)
    (said,) = mistakes(programs)
    assert said.replace(f"{programs.parent}/", "").startswith(f"product.yml:{line}: product.phases.{message}")


def test_a_program_that_is_not_executable_is_said_with_the_remedy(programs: Path) -> None:
    (programs.parent / "deploy" / "install.sh").chmod(0o644)
    (said,) = mistakes(programs)
    program = "deploy/install.sh"
    assert said == (
        f"product.yml:7: product.phases.deploy.command[0]: the program {program} is not executable; "
        f"run `chmod +x {program}`"
    )


def test_a_program_may_lie_anywhere(programs: Path, tmp_path: Path) -> None:
    edit(programs / "product.yml", "[sh, -c", f"[{tmp_path}/deploy/install.sh, -c")
    assert mistakes(programs) == []


PLAYS = """\
- hosts: {hosts}
  tasks:
    - ansible.builtin.copy: {{dest: "{{{{ cluster_kubeconfig_path }}}}", content: ""}}
"""


def product(matrix: Path, more: str) -> None:
    """Add lines to the small product, at its top."""
    edit(matrix / "product.yml", "  directory: playbooks\n", f"  directory: playbooks\n{more}")


def plays(matrix: Path, hosts: str) -> None:
    """Let the deploy playbook have one play, about some hosts."""
    (matrix.parent / "playbooks" / "cluster.yml").write_text(PLAYS.format(hosts=hosts), encoding="utf-8")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("{install: reqs.txt}", "product.ansible.install: the file playbooks/reqs.txt does not exist"),
        ("{requirements: r.yml}", "product.ansible.requirements: the file playbooks/r.yml does not exist"),
        ("{config: a.cfg}", "product.ansible.config: the file playbooks/a.cfg does not exist"),
        ("{inventories: [inv]}", "product.ansible.inventories[0]: the inventory playbooks/inv does not exist"),
        (
            "{path: bin}",
            "product.ansible.path: no program playbooks/bin/ansible-playbook; `path` is the folder of "
            "ansible-playbook, such as .venv/bin",
        ),
        (
            "{path: bin, install: a.txt}",
            "product.ansible: has both `path` and `install`; one of them says which Ansible is used",
        ),
        (
            "{offline: folder}",
            "product.ansible: has `offline` without `requirements`, whose archives it would hold",
        ),
        ("{pth: bin}", "product.ansible.pth: unknown key; did you mean path?"),
    ],
)
def test_what_is_not_there_is_one_mistake(matrix: Path, more: str, said: str) -> None:
    product(matrix, f"  ansible: {more}\n")
    found = [line for line in mistakes(matrix) if "does not exist" not in line or said[-14:] in line]
    assert [line.split(": ", 1)[1] for line in found if said.split(":")[0] + ":" in line] == [said]


def test_what_is_there_is_no_mistake(matrix: Path) -> None:
    folder = matrix.parent / "playbooks"
    for name in ("reqs.txt", "r.yml", "a.cfg"):
        (folder / name).touch()
    for name in ("group_vars", "archives"):
        (folder / name).mkdir()
    product(
        matrix,
        "  ansible: {install: reqs.txt, requirements: r.yml, offline: archives, config: a.cfg, args: [-v],"
        " become: true, inventories: [group_vars]}\n",
    )
    assert mistakes(matrix) == []


def test_the_sources_stand_where_their_mark_is(matrix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(product_files.VARIABLE, raising=False)
    edit(matrix / "product.yml", "playbook: upgrade.yml", 'playbook: "{sources}/up.yml"')
    assert mistakes(matrix)[0].endswith(
        "product.phases: {sources} stands for the folder of `sources`, which this product does not have; add `sources`"
    )
    product(matrix, "  sources: {path: theirs}\n")
    (said,) = mistakes(matrix)
    assert "product.sources: the folder theirs does not exist" in said
    (matrix.parent / "theirs").mkdir()
    (said,) = mistakes(matrix)
    assert "phases.upgrade.playbook: the playbook theirs/up.yml does not exist" in said
    (matrix.parent / "theirs" / "up.yml").write_text("- hosts: all\n", encoding="utf-8")
    assert mistakes(matrix) == []
    spec = load_spec(matrix, today=TODAY)
    located = product_files.located(spec.product, matrix.parent)
    assert located.phases["upgrade"].playbook == f"{matrix.parent}/theirs/up.yml"


def test_sources_that_are_fetched_later_are_judged_later(matrix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(product_files.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(matrix.parent / "cache"))
    edit(matrix / "product.yml", "playbook: upgrade.yml", 'playbook: "{sources}/up.yml"')
    product(matrix, "  sources: {git: https://example.org/p.git, revision: v1}\n")
    assert mistakes(matrix) == []
    product_files.cached("https://example.org/p.git", "v1").mkdir(parents=True)
    assert "up.yml does not exist" in mistakes(matrix)[0]


def test_a_folder_replaces_the_sources(matrix: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    edit(matrix / "product.yml", "playbook: upgrade.yml", 'playbook: "{sources}/up.yml"')
    product(matrix, "  sources: {git: https://example.org/p.git, revision: v1}\n")
    monkeypatch.setenv(product_files.VARIABLE, str(tmp_path / "mine"))
    (said,) = mistakes(matrix)
    assert "product.sources: the folder mine does not exist; VMATRIX_PRODUCT_SOURCES" in said


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        ("{}", "product.sources: needs either `git` and `revision`, or `path`"),
        ("{git: a, path: b}", "product.sources: needs either `git` and `revision`, or `path`"),
        ("{git: a}", "product.sources: needs `git` and `revision` together"),
        ("{git: a, revision: 1.2}", "product.sources.revision: expected a string, got 1.2; put it in quotes"),
    ],
)
def test_sources_have_one_origin(matrix: Path, sources: str, said: str) -> None:
    product(matrix, f"  sources: {sources}\n")
    assert any(said in line for line in mistakes(matrix))


def test_plays_about_groups_that_no_machine_has_are_one_mistake_with_its_remedy(matrix: Path) -> None:
    plays(matrix, "kube_control_plane:kube_node")
    assert [line.partition(": ")[2] for line in mistakes(matrix)] == [
        "product.phases.deploy.playbook: no play of cluster.yml is about machines of control_plane, etcd: its plays "
        "name kube_control_plane:kube_node, the inventory has control_plane, etcd, node; give the product's own names "
        "under `groups`"
    ]
    product(matrix, "  groups: {control_plane: kube_control_plane, etcd: [], node: kube_node}\n")
    assert mistakes(matrix) == []


@pytest.mark.parametrize(
    "hosts",
    [
        *("all", "control_plane:node", "control_plane,node", "[control_plane, node]", "'contr*:node'"),
        *("'{{ target }}'", "'~cont.*'", "cp-0", "'control_plane[0]:node:!etcd'"),
    ],
)
def test_plays_that_are_or_may_be_about_all_machines_are_no_mistake(matrix: Path, hosts: str) -> None:
    plays(matrix, hosts)
    assert mistakes(matrix) == []


def test_a_deployment_is_about_all_machines(matrix: Path) -> None:
    plays(matrix, "localhost:control_plane")
    assert "no play of cluster.yml is about machines of node: its plays name localhost:control_plane" in str(
        mistakes(matrix)
    )


def test_imported_plays_count_and_other_groups_that_a_task_makes_do_not(matrix: Path) -> None:
    folder = matrix.parent / "playbooks"
    plays(matrix, "others")
    (folder / "cluster.yml").rename(folder / "inner.yml")
    (folder / "cluster.yml").write_text("- ansible.builtin.import_playbook: inner.yml\n", encoding="utf-8")
    assert "no play of cluster.yml" in str(mistakes(matrix))
    (folder / "tasks.yml").write_text("- group_by: {key: some}\n", encoding="utf-8")
    assert "no play of cluster.yml" in str(mistakes(matrix))


@pytest.mark.parametrize(
    "made",
    [
        *("{key: others}", "\n    key: others", "\n    key: \"oth{{ suffix | default('a, b') }}\"", "key={{ name }}"),
        *("{name: a, groups: [others]}", "{name: a, groups: others}"),
    ],
)
def test_groups_that_a_task_makes_are_not_judged(matrix: Path, made: str) -> None:
    plays(matrix, "others")
    (matrix.parent / "playbooks" / "tasks.yml").write_text(f"- group_by: {made}\n", encoding="utf-8")
    assert mistakes(matrix) == []


def test_a_later_phase_may_be_about_some_machines_but_not_about_none(matrix: Path) -> None:
    plays(matrix, "all")
    later = matrix.parent / "playbooks" / "upgrade.yml"
    later.write_text("- hosts: node\n", encoding="utf-8")
    assert mistakes(matrix) == []
    later.write_text("- hosts: workers\n", encoding="utf-8")
    assert "product.phases.upgrade.playbook: no play of upgrade.yml is about" in str(mistakes(matrix))


def test_a_product_that_cannot_leave_a_kubeconfig_is_one_mistake(matrix: Path) -> None:
    playbook = matrix.parent / "playbooks" / "cluster.yml"
    for name in ("cluster.yml", "upgrade.yml"):
        playbook.with_name(name).write_text("- hosts: all\n", encoding="utf-8")
    (said,) = mistakes(matrix)
    assert said.partition(": ")[2] == (
        "product.phases.deploy.playbook: no file of playbooks mentions cluster_kubeconfig_path, so no "
        "cluster could be reached after the deployment; write the admin kubeconfig to the path in that variable "
        "(docs/product.md)"
    )
    (playbook.parent / "role.j2").write_text("{{ cluster_kubeconfig_path }}", encoding="utf-8")
    assert mistakes(matrix) == []


def test_a_topology_with_the_products_groups_is_told_once_what_groups_are(matrix: Path) -> None:
    edit(matrix / "topologies.yml", "groups: [control_plane, etcd, node]", "groups: [kube_control_plane, etcd, node]")
    assert [line for line in mistakes(matrix) if line.startswith("topologies.yml") and "groups" not in line] == []


def test_product_without_phases_is_one_mistake(matrix: Path) -> None:
    text = (matrix / "product.yml").read_text(encoding="utf-8")
    head, _, tail = text.partition("  phases:\n")
    (matrix / "product.yml").write_text(
        f"{head}  phases: {{}}\n  without{tail.split('  without', 1)[1]}", encoding="utf-8"
    )
    (said,) = mistakes(matrix)
    assert "product.phases: expected at least 1" in said


def test_a_submodule_that_is_not_checked_out_is_said_at_the_phase(matrix: Path) -> None:
    plays(matrix, "all")
    file = next(matrix.parent.rglob("cluster.yml"))
    file.write_text(file.read_text(encoding="utf-8") + "- import_playbook: kubespray/cluster.yml\n", encoding="utf-8")
    (said,) = mistakes(matrix)
    assert "product.phases.deploy.playbook: " in said
    assert "kubespray/cluster.yml under `import_playbook`, which does not exist; is a submodule checked out" in said


def test_roles_where_the_products_own_ansible_cfg_has_them(matrix: Path) -> None:
    plays(matrix, "all")
    file = next(matrix.parent.rglob("cluster.yml"))
    file.write_text(file.read_text(encoding="utf-8") + "- hosts: all\n  roles: [web]\n", encoding="utf-8")
    assert "the role web" in str(mistakes(matrix))
    (file.parent / "lib" / "web" / "tasks").mkdir(parents=True)
    (file.parent / "ansible.cfg").write_text("[defaults]\nroles_path = {{CWD}}/lib\n", encoding="utf-8")
    assert mistakes(matrix) == []

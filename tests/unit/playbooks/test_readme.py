"""What the playbooks' README tells users is so: their plugins, where variables go, and what works as a collection."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from harness import proc
from tests.unit import ansible_programs
from tests.unit.playbooks.playbook_files import ANSIBLE, ENTRIES, PLAYBOOKS, load, module

README = (PLAYBOOKS / "README.md").read_text(encoding="utf-8")
FILTERS = {
    name
    for path in (PLAYBOOKS / "filter_plugins").glob("*.py")
    for name in module(f"filter_plugins/{path.name}").FilterModule().filters()
}
# Where a user may set a variable, and whether that outranks the playbooks' defaults; {} is the variable's name.
PLACES = {
    "hosts.ini [all:vars]": ("cluster_pod_cidr", False),
    "hosts.ini [node:vars]": ("cluster_service_cidr", False),
    "group_vars/all.yml": ("cluster_timeout_scale", False),
    "group_vars/node.yml": ("cluster_network_plugin", True),
    "host_vars/w1.lab.yml": ("cluster_image_registry", True),
    "hosts.ini [node]": ("cluster_kube_proxy_mode", True),
}


def section(title: str) -> str:
    """Return the text under a heading of the README."""
    return re.split(r"^##+ ", README.split(f"## {title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def test_every_module_and_filter_is_listed() -> None:
    rows = re.findall(r"^\| (`.*?) \|", section("What is not Ansible's own"), re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
    assert listed == FILTERS | {path.stem for path in (PLAYBOOKS / "library").glob("*.py")}


def test_every_playbook_is_an_entry_or_in_the_order() -> None:
    listed = set(re.findall(r"`([a-z-]+)\.yml`", section("Entries"))) | set(
        re.findall(r"`([a-z-]+)`", section("Order"))
    )
    assert {path.stem for path in ENTRIES} - listed == set()


def test_a_playbook_of_the_order_has_the_role_of_its_name_unless_the_readme_says_so() -> None:
    order = section("Order").split(". Each is")[0]
    without = {
        name
        for name in re.findall(r"`([a-z-]+)`", order)
        if not (PLAYBOOKS / "roles" / name.replace("-", "_")).is_dir()
    }
    assert without == {"etcd-members"}
    played = [entry["role"] for play in load(PLAYBOOKS / "etcd-members.yml") for entry in play["roles"]]
    assert "(`etcd-members` runs\n" + " and ".join(f"`{role}`" for role in played) in README


def test_variables_have_an_effect_where_the_readme_has_users_set_them(tmp_path: Path) -> None:
    lines = {place: f"{name}={json.dumps('mine')}" for place, (name, _) in PLACES.items()}
    (tmp_path / "hosts.ini").write_text(
        f"[node]\nw1.lab {lines['hosts.ini [node]']}\n[node:vars]\n{lines['hosts.ini [node:vars]']}\n"
        f"[all:vars]\n{lines['hosts.ini [all:vars]']}\n",
        encoding="utf-8",
    )
    for place, (name, _) in PLACES.items():
        if not place.startswith("hosts.ini"):
            (tmp_path / place).parent.mkdir(exist_ok=True)
            (tmp_path / place).write_text(f"{name}: mine\n", encoding="utf-8")
    program = ANSIBLE.with_name("ansible-inventory")
    done = ansible_programs.run(
        [program, "-i", tmp_path / "hosts.ini", "--playbook-dir", PLAYBOOKS, "--host", "w1.lab"],
        timeout=120,
        env={"PATH": "/usr/bin:/bin", "ANSIBLE_HOME": str(tmp_path / "ansible")},
    )
    known = json.loads(done.stdout)
    assert {place: known[name] == "mine" for place, (name, _) in PLACES.items()} == {
        place: outranks for place, (_, outranks) in PLACES.items()
    }


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the collection, as ansible-galaxy builds and installs it."""
    place = tmp_path_factory.mktemp("collection")
    galaxy = ANSIBLE.with_name("ansible-galaxy")
    environment = {"PATH": "/usr/bin:/bin", "ANSIBLE_HOME": str(place / "ansible"), "HOME": str(place)}
    build: list[str | Path] = [galaxy, "collection", "build", PLAYBOOKS, "--output-path", place]
    proc.run(build, timeout=120, env=environment)
    archive = next(place.glob("vmatrix-kubernetes-*.tar.gz"))
    install: list[str | Path] = [galaxy, "collection", "install", "--offline", archive, "--collections-path", place]
    proc.run(install, timeout=120, env=environment)
    return place / "ansible_collections" / "vmatrix" / "kubernetes"


def played(collection: Path, playbook: str | Path, *options: str) -> str:
    """Run ansible-playbook from elsewhere, with the collection installed; return what it says."""
    place = collection.parents[2]
    done = proc.run(
        [ANSIBLE, "-i", "here,", "-c", "local", *options, playbook],
        timeout=120,
        check=False,
        env={
            "ANSIBLE_HOME": str(place / "ansible"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_COLLECTIONS_PATH": str(place),
            "ANSIBLE_PYTHON_INTERPRETER": "/usr/bin/python3",
        },
    )
    return done.stdout + done.stderr


def test_playbooks_of_a_collection_run_by_their_path(collection: Path) -> None:
    in_group = ("-i", "node,", "--list-tasks")
    assert "node : Join the cluster" in played(collection, collection / "cluster.yml", *in_group)
    own = [
        {"versioned_binaries": {"releases": [], "timeout": 5}},
        {"ansible.builtin.debug": {"msg": "{{ 60 | stretched(2) }} {{ cluster_kube_proxy_mode }}"}},
    ]
    play = {"hosts": "all", "gather_facts": False, "roles": [{"role": "scheduler", "when": False}], "tasks": own}
    (collection / "own.yml").write_text(json.dumps([play]), encoding="utf-8")
    said = played(collection, collection / "own.yml")
    assert "120 nftables" in said, said
    assert "failed=0 " in said


def test_names_of_a_collection_do_not_work(collection: Path) -> None:
    assert "vmatrix.kubernetes.cluster could not be found" in played(collection, "vmatrix.kubernetes.cluster")
    role = {"hosts": "all", "gather_facts": False, "roles": ["vmatrix.kubernetes.etcd_backup"]}
    (collection.parents[2] / "role.yml").write_text(json.dumps([role]), encoding="utf-8")
    assert "couldn't resolve module/action 'versioned_binaries'" in played(
        collection, collection.parents[2] / "role.yml"
    )

"""What a new project consists of: few files that are valid by the loader and by the schemas."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from harness.errors import BadInput
from harness.files import write_new
from harness.paths import packaged_dir
from harness.proc import run
from harness.spec import load_spec
from harness.spec import new_project as packaged
from harness.spec.new_project import NewProject, TeamPlaybooks, look, named
from harness.spec.usual_names import GROUPS, PHASES
from tests.unit.playbooks.playbook_files import module_python

GITLAB = "group/vmatrix"
PLAY = '- hosts: all\n  vars: {path: "{{ cluster_kubeconfig_path }}"}\n'


def lay(project: Path, *playbooks: str) -> Path:
    """Make a folder with playbooks."""
    (project / "deploy").mkdir()
    for name in playbooks:
        (project / "deploy" / name).write_text(PLAY, encoding="utf-8")
    return project


def written(project: NewProject) -> dict[str, str]:
    """Write a project's files."""
    files = project.files()
    write_new({project.directory / name: content for name, content in files.items()})
    return {name: text for name, (text, _) in files.items()}


@pytest.mark.parametrize(
    ("phases", "scenarios"),
    [
        ({"deploy": "site.yml"}, {"fresh"}),
        ({"deploy": "site.yml", "reset": "reset.yml"}, {"fresh", "reset"}),
        ({"deploy": "site.yml", "scale-out": "site.yml", "scale-in": "reset.yml"}, {"fresh", "scale"}),
    ],
)
def test_a_product_without_all_phases_is_a_valid_project(
    tmp_path: Path, phases: dict[str, str], scenarios: set[str]
) -> None:
    lay(tmp_path, "site.yml", "reset.yml")
    files = written(NewProject(tmp_path, "ours", named(tmp_path, "deploy", phases), GITLAB))
    assert {name for name in files if not name.startswith("docs/schemas/")} == {
        *("matrix/product.yml", "matrix/tiers.yml", ".gitignore", ".gitlab-ci.yml")
    }
    spec = load_spec(tmp_path / "matrix")
    assert spec.product.name == "ours"
    assert {name: phase.playbook for name, phase in spec.product.phases.items()} == phases
    assert {cell["network"] for cell in spec.tiers["smoke"].pinned} == {"flannel"}
    assert list(spec.tiers) == ["smoke"]


def test_each_file_names_a_schema_that_the_project_has(tmp_path: Path) -> None:
    lay(tmp_path, "site.yml")
    written(NewProject(tmp_path, "ours", named(tmp_path, "deploy", {"deploy": "site.yml"}), GITLAB))
    files = list((tmp_path / "matrix").iterdir())
    assert len(files) == 2
    for file in files:
        text = file.read_text(encoding="utf-8")
        schema = json.loads((file.parent / text.partition("$schema=")[2].partition("\n")[0]).read_text("utf-8"))
        assert list(Draft202012Validator(schema).iter_errors(yaml.safe_load(text))) == []
        assert list(Draft202012Validator(schema).iter_errors({"wrong": 1})) != []


def test_what_a_folder_of_playbooks_says_comes_into_the_product_file(tmp_path: Path) -> None:
    lay(tmp_path, "site.yml")
    (tmp_path / "deploy" / "requirements.yml").write_text("collections: []\n", encoding="utf-8")
    playbooks = TeamPlaybooks(
        "deploy",
        {"deploy": "site.yml"},
        {"control_plane": "masters", "etcd": [], "node": "workers"},
        ("bastion",),
        {"requirements": "requirements.yml"},
    )
    text = written(NewProject(tmp_path, "our: product", playbooks, GITLAB))["matrix/product.yml"]
    product = yaml.safe_load(text)["product"]
    assert product["name"] == "our: product"
    assert product["groups"] == {"control_plane": "masters", "etcd": [], "node": "workers"}
    assert product["ansible"] == {"requirements": "requirements.yml"}
    assert "puts no machine:\n  # bastion\n" in text
    assert load_spec(tmp_path / "matrix").product.group_names("control_plane") == ("masters",)


def test_vmatrix_own_playbooks_need_an_empty_file(tmp_path: Path) -> None:
    files = written(NewProject(tmp_path, "", None, GITLAB))
    assert sorted(files) == [".gitignore", ".gitlab-ci.yml", "vmatrix.yml"]
    assert yaml.safe_load(files["vmatrix.yml"]) is None
    assert load_spec(tmp_path / "matrix") == load_spec(tmp_path / "nowhere")


@pytest.mark.parametrize("own", [True, False])
def test_the_pipeline_includes_vmatrix(tmp_path: Path, own: bool) -> None:
    lay(tmp_path, "site.yml")
    begins = named(tmp_path, "deploy", {"deploy": "site.yml"}) if own else None
    text, _ = NewProject(tmp_path, "ours", begins, GITLAB).files()[".gitlab-ci.yml"]
    (include,) = yaml.safe_load(text)["include"]
    assert include["project"] == include["inputs"]["vmatrix_project"] == GITLAB
    assert include["inputs"].get("nightly_tier") == ("smoke" if own else None)
    assert "product" not in include["inputs"], "jobs work on the project"


def test_without_a_path_there_is_no_pipeline(tmp_path: Path) -> None:
    assert ".gitlab-ci.yml" not in NewProject(tmp_path, "ours", None, "").files()


@pytest.mark.parametrize(
    ("folder", "phases", "gitlab", "said"),
    [
        ("nowhere", {"deploy": "site.yml"}, GITLAB, "nowhere does not exist"),
        ("deploy", {"reset": "site.yml"}, GITLAB, "no playbook in .* looks like one that deploys"),
        ("deploy", {"deploy": "cluster.yml"}, GITLAB, r"cluster\.yml does not exist"),
        ("deploy", {"deploy": "site.yml", "upgrad": "site.yml"}, GITLAB, "unknown phase 'upgrad'; did you mean 'upg"),
        ("deploy", {"deploy": "site.yml"}, "vmatrix", "'vmatrix' is not a path of a GitLab project"),
        ("deploy", {"deploy": "site.yml"}, "a/b # c", "is not a path of a GitLab project"),
    ],
)
def test_what_does_not_exist_is_refused(
    tmp_path: Path, folder: str, phases: dict[str, str], gitlab: str, said: str
) -> None:
    lay(tmp_path, "site.yml")
    with pytest.raises(BadInput, match=said):
        NewProject(tmp_path, "ours", named(tmp_path, folder, phases), gitlab).files()


def test_a_project_is_not_made_twice(tmp_path: Path) -> None:
    written(NewProject(tmp_path, "ours", None))
    with pytest.raises(BadInput, match="is a project already"):
        NewProject(tmp_path, "ours", None).files()


PLACES = {
    "https://127.0.0.1:6443": "192.0.2.1",
    "https://[::1]:6443": "2001:db8::1",
    "https://api.example": "192.0.2.1",
}


def test_the_playbook_that_hands_out_a_kubeconfig(tmp_path: Path) -> None:
    """One start of Ansible for all clusters, each of which is a control plane of its own."""
    (tmp_path / "site.yml").write_text("- hosts: all\n  gather_facts: false\n", encoding="utf-8")
    written(NewProject(tmp_path, "ours", named(tmp_path, ".", {"deploy": "site.yml"}), ""))
    text = (tmp_path / "vmatrix-deploy.yml").read_text(encoding="utf-8")
    assert text.count("hosts: control_plane[0]") == 1
    local = {"ansible_connection": "local", "ansible_become": False, "ansible_pipelining": True}
    hosts, playbooks, python = {}, [], str(module_python(tmp_path))
    for number, (server, address) in enumerate(PLACES.items()):
        admin, playbook = tmp_path / f"admin-{number}.conf", tmp_path / f"deploy-{number}.yml"
        admin.write_text(f"    server: {server}\n    token: x\n", encoding="utf-8")
        of_one = text.replace("control_plane[0]", f"control_plane[{number}]")
        playbook.write_text(of_one.replace("/etc/kubernetes/admin.conf", str(admin)), encoding="utf-8")
        hosts[f"cp-{number}"] = {**local, "ansible_host": address, "ansible_python_interpreter": python}
        playbooks.append(playbook)
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"control_plane": {"hosts": hosts}}), encoding="utf-8")
    program = Path(sys.executable).with_name("ansible-playbook")
    out = f"cluster_kubeconfig_path={tmp_path}/{{{{ inventory_hostname }}}}"
    run([program, "-i", tmp_path / "hosts.yml", "-e", out, *playbooks], timeout=120)
    for number, (server, place) in enumerate(PLACES.items()):
        made = tmp_path / f"cp-{number}"
        address = f"[{place}]" if ":" in place else place
        port = ":6443" if server.endswith("6443") else ""
        assert made.read_text(encoding="utf-8") == f"    server: https://{address}{port}\n    token: x\n"
        assert made.stat().st_mode & 0o777 == 0o600


HEAD = "# yaml-language-server: $schema=../../../docs/schemas/{}.json\n"


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An example in a package."""
    root = tmp_path / "package" / "examples" / "one"
    for name in ("matrix", "bin", "runs/x"):
        (root / name).mkdir(parents=True)
    (root / "matrix/product.yml").write_text(HEAD.format("product") + "product: {kind: command}\n", encoding="utf-8")
    (root / "matrix/tiers.yml").write_text(HEAD.format("tiers") + "tiers: {first: {}, second: {}}\n", encoding="utf-8")
    (root / "bin/deploy.sh").write_text("true\n", encoding="utf-8")
    (root / "bin/deploy.sh").chmod(0o755)
    (root / "runs/x/log").touch()
    (root / "README.md").touch()
    (tmp_path / "package/examples/notes").mkdir()
    monkeypatch.setattr(packaged, "packaged_dir", lambda: tmp_path / "package")
    return root


def test_an_example_is_a_folder_with_a_product(example: Path) -> None:
    assert packaged.examples() == ("one",)
    assert packaged.kind_of("one") == "command"
    assert packaged.tier_of("one") == "first"


def test_its_files_become_the_projects(example: Path, tmp_path: Path) -> None:
    made = NewProject(tmp_path / "new", "ours", "one").files()
    assert made["bin/deploy.sh"] == ("true\n", 0o755)
    assert not [name for name in made if name.startswith("runs")]
    assert "README.md" in made
    assert made["matrix/tiers.yml"][0].splitlines()[0] == "# yaml-language-server: $schema=../docs/schemas/tiers.json"
    assert {"docs/schemas/product.json", "docs/schemas/tiers.json", ".gitignore"} <= made.keys()
    (include,) = yaml.safe_load(made[".gitlab-ci.yml"][0])["include"]
    assert include["inputs"]["smoke_tier"] == "first"


SHIPPED = sorted(file.parts[-3] for file in (packaged_dir() / "examples").glob("*/matrix/product.yml"))


@pytest.mark.parametrize("name", SHIPPED)
def test_an_example_that_ships_makes_a_valid_project(name: str, tmp_path: Path) -> None:
    project = NewProject(tmp_path / "new", "ours", name)
    files = project.files()
    write_new({project.directory / file: content for file, content in files.items()})
    assert project.tier in load_spec(project.directory / "matrix").tiers
    for file, (text, mode) in packaged.files(name).items():
        shipped = packaged_dir() / "examples" / name / file
        assert text.splitlines()[1:] == shipped.read_text(encoding="utf-8").splitlines()[1:]
        assert mode & 0o100 == shipped.stat().st_mode & 0o100


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("new", [True, False], ids=["in a project", "in the checkout"])
def test_each_file_of_an_example_fits_the_schema_that_it_names(name: str, new: bool, tmp_path: Path) -> None:
    root = tmp_path / "new" if new else packaged_dir() / "examples" / name
    if new:
        write_new({root / file: content for file, content in NewProject(root, "ours", name).files().items()})
    files = list((root / "matrix").glob("*.yml"))
    assert files
    for file in files:
        text = file.read_text(encoding="utf-8")
        schema = json.loads((file.parent / text.partition("$schema=")[2].partition("\n")[0]).read_text("utf-8"))
        assert list(Draft202012Validator(schema).iter_errors(yaml.safe_load(text))) == []


def test_the_examples_that_the_help_names_ship() -> None:
    assert SHIPPED == ["kubespray", "operator", "script"]
    kinds = {"kubespray": "ansible", "operator": "declared", "script": "command"}
    assert {name: packaged.kind_of(name) for name in SHIPPED} == kinds


TEAM_PLAY = "- hosts: all\n  tasks: []\n"


def lay_out(folder: Path, **files: str) -> None:
    """Write playbooks; double underscores stand for dots."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")


def test_file_names_propose_phases(tmp_path: Path) -> None:
    names = ("site__yml", "scale__yml", "remove_node__yaml", "upgrade__yml", "reset__yml", "users__yml")
    lay_out(tmp_path, **dict.fromkeys(names, TEAM_PLAY))
    found = look(tmp_path)
    assert found.folder == "."
    assert found.phases == {
        "deploy": "site.yml",
        "scale-out": "scale.yml",
        "scale-in": "remove_node.yaml",
        "remove-node": "remove_node.yaml",
        "upgrade": "upgrade.yml",
        "reset": "reset.yml",
    }


@pytest.mark.parametrize(
    "text", ["a: 1\n", "- name: a task\n  debug:\n", "[", "", "- 1\n", "\x00"], ids=["map", "tasks", "[", "", "1", "0"]
)
def test_what_is_no_playbook_proposes_nothing(tmp_path: Path, text: str) -> None:
    lay_out(tmp_path, site__yml=text)
    assert look(tmp_path).phases == {}


def test_the_usual_folders_are_looked_into_in_turn(tmp_path: Path) -> None:
    lay_out(tmp_path / "playbooks", reset__yml=TEAM_PLAY)
    lay_out(tmp_path / "ansible", cluster__yml=TEAM_PLAY)
    assert look(tmp_path).folder == "ansible"
    assert look(tmp_path, "playbooks").phases == {"reset": "reset.yml"}


def test_plays_and_imports_propose_groups(tmp_path: Path) -> None:
    plays = '- hosts: masters:&amd64\n- hosts: "workers[0],bastion"\n- hosts: "{{ x }}"\n- import_playbook: etcd.yml\n'
    lay_out(tmp_path, site__yml=plays, etcd__yml="- hosts: [etcd, all]\n- ansible.builtin.import_playbook: site.yml\n")
    found = look(tmp_path)
    assert found.groups == {"control_plane": "masters", "etcd": "etcd", "node": "workers"}
    assert found.others == ("amd64", "bastion")


@pytest.mark.parametrize("hosts", ["all", "control_plane:node:etcd", "etcd:control_plane:all"])
def test_our_own_groups_need_no_names(tmp_path: Path, hosts: str) -> None:
    lay_out(tmp_path, site__yml=f"- hosts: {hosts}\n  vars: {{secret: !vault x}}\n")
    found = look(tmp_path)
    assert found.phases == {"deploy": "site.yml"}
    assert found.groups == {}
    assert found.others == ()


def test_what_lies_beside_the_playbooks_says_how_ansible_is_called(tmp_path: Path) -> None:
    lay_out(tmp_path / "playbooks", site__yml=TEAM_PLAY, requirements__yml="roles: []\n")
    lay_out(tmp_path, requirements__txt="# ours\nansible-core==2.18.1\n", ansible__cfg="[defaults]\n")
    assert look(tmp_path).ansible == {
        "install": "../requirements.txt",
        "requirements": "requirements.yml",
        "config": "../ansible.cfg",
    }


def test_packages_without_ansible_are_not_installed(tmp_path: Path) -> None:
    lay_out(tmp_path, site__yml=TEAM_PLAY, requirements__txt="netaddr\n")
    assert look(tmp_path).ansible == {}


def test_only_phases_and_groups_that_there_are_can_be_proposed(tmp_path: Path) -> None:
    packaged = load_spec(tmp_path / "nowhere")
    assert set(PHASES) == set(packaged.product.phases)
    assert set(GROUPS) == {group for one in packaged.topologies.values() for m in one.machines for group in m.groups}
    assert [names[0] for names in GROUPS.values()] == list(GROUPS)

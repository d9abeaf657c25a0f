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
from harness.proc import run
from harness.spec import load_spec
from harness.spec.new_project import NewProject
from harness.spec.new_project_playbooks import TeamPlaybooks, named

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
        ("deploy", {"deploy": "site.yml"}, "vmatrix", "'vmatrix' is no path of a GitLab project"),
        ("deploy", {"deploy": "site.yml"}, "a/b # c", "is no path of a GitLab project"),
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


@pytest.mark.parametrize("server", PLACES)
def test_the_playbook_that_hands_out_a_kubeconfig(tmp_path: Path, server: str) -> None:
    (tmp_path / "site.yml").write_text("- hosts: all\n  gather_facts: false\n", encoding="utf-8")
    written(NewProject(tmp_path, "ours", named(tmp_path, ".", {"deploy": "site.yml"}), ""))
    playbook, admin, out = (tmp_path / name for name in ("vmatrix-deploy.yml", "admin.conf", "out"))
    text = playbook.read_text(encoding="utf-8")
    playbook.write_text(text.replace("/etc/kubernetes/admin.conf", str(admin)), encoding="utf-8")
    admin.write_text(f"    server: {server}\n    token: x\n", encoding="utf-8")
    host = {"ansible_host": PLACES[server], "ansible_connection": "local", "ansible_become": False}
    group = {"control_plane": {"hosts": {"cp-0": {**host, "ansible_python_interpreter": sys.executable}}}}
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(group), encoding="utf-8")
    program = Path(sys.executable).with_name("ansible-playbook")
    run([program, "-i", tmp_path / "hosts.yml", "-e", f"cluster_kubeconfig_path={out}", playbook], timeout=120)
    address = f"[{PLACES[server]}]" if ":" in PLACES[server] else PLACES[server]
    port = ":6443" if server.endswith("6443") else ""
    assert out.read_text(encoding="utf-8") == f"    server: https://{address}{port}\n    token: x\n"
    assert out.stat().st_mode & 0o777 == 0o600

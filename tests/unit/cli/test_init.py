"""`vmatrix init` by options, and on a terminal by questions."""

from __future__ import annotations

import io
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from harness.paths import PROJECT, packaged_dir
from harness.spec import load_spec
from tests.package.commands import call
from tests.unit.processes import interruptible, reading

pytestmark = pytest.mark.usefixtures("planned_once")
SECONDS = 60
PLAY = '- hosts: all\n  vars: {path: "{{ cluster_kubeconfig_path }}"}\n'


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder with one playbook, in no project."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(PROJECT)
    monkeypatch.setattr("sys.argv", [])
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "site.yml").write_text(PLAY, encoding="utf-8")
    return tmp_path


def test_the_smallest_of_several_cells_is_named_first_and_the_readme_is_there(work: Path) -> None:
    said = call("init new --from kubespray --gitlab none")
    assert said.code == 0, said
    *_, up, first, tier = said.out.splitlines()
    assert (up, tier) == ("  vmatrix infra up", "  vmatrix run --tier kubespray")
    assert re.fullmatch(r"  vmatrix run k1354-\S+-c1w1-fresh-k-\w+ # the smallest cell", first)
    assert (work / "new" / "README.md").is_file()


def test_a_new_pinned_cell_names_only_axes_that_matter(work: Path) -> None:
    call("init --from playbooks --gitlab none")
    (cell,) = yaml.safe_load((work / "matrix" / "tiers.yml").read_text(encoding="utf-8"))["tiers"]["smoke"]["pinned"]
    axes = {axis.name: axis for axis in load_spec(packaged_dir() / "matrix").axes}
    assert set(cell) == {name for name, axis in axes.items() if axis.default is None}


@pytest.mark.parametrize("words", ["--from playbooks", "--product ansible", "--playbooks deploy"])
def test_options_make_a_project_that_can_be_listed(work: Path, words: str) -> None:
    said = call(f"init {words} --name ours --gitlab group/vmatrix")
    assert said.code == 0, said
    assert said.out.splitlines()[-3:] == ["go on with:", "  vmatrix infra up", "  vmatrix run --tier smoke"]
    made = {str(path.relative_to(work)) for path in work.rglob("*") if path.is_file()}
    expected = {f"{folder}/{name}" for name in ("product", "tiers") for folder in ("matrix", "docs/schemas")}
    expected = {f"{name}.{'yml' if name.startswith('matrix') else 'json'}" for name in expected}
    assert made == {*expected, ".gitignore", ".gitlab-ci.yml", "deploy/site.yml"}
    assert load_spec(work / "matrix").product.phases["deploy"].playbook == "site.yml"
    listed = call("list")
    assert listed.code == 0, listed
    assert "smoke" in listed.out


def test_a_playbook_that_hands_out_no_kubeconfig_gets_one_that_does(work: Path) -> None:
    (work / "deploy" / "site.yml").write_text("- hosts: all\n", encoding="utf-8")
    said = call("init --from playbooks")
    assert said.code == 0, said
    assert "repair" not in said.out
    assert load_spec(work / "matrix").product.phases["deploy"].playbook == "vmatrix-deploy.yml"
    program = Path(sys.executable).with_name("ansible-playbook")
    argv = [str(program), "--syntax-check", "-i", "localhost,", str(work / "deploy" / "vmatrix-deploy.yml")]
    subprocess.run(argv, check=True, capture_output=True, timeout=SECONDS)


def plays(*hosts: str, imports: str = "") -> str:
    lines = [f"- hosts: {pattern}\n  tasks: []\n" for pattern in hosts]
    return "".join([*lines, f"- import_playbook: {imports}\n" if imports else ""])


K3S = plays("k3s_cluster", "server", "agent")
# By layout: the project's files, and what `groups` says.
LAYOUTS: dict[str, tuple[dict[str, str], dict[str, object]]] = {
    "k3s-ansible": (
        {"playbooks/site.yml": K3S, "playbooks/upgrade.yml": K3S, "playbooks/reset.yml": K3S, "ansible.cfg": "",
         "inventory-sample.yml": "k3s_cluster: {children: {server: {}, agent: {}}}", "galaxy.yml": "name: k3s"},
        {"control_plane": ["server", "k3s_cluster"], "etcd": [], "node": ["agent", "k3s_cluster"]},
    ),
    "k3s-masters": (
        {"site.yml": plays("k3s_cluster", "master", "node"), "reset.yml": plays("k3s_cluster")},
        {"control_plane": ["master", "k3s_cluster"], "etcd": [], "node": ["node", "k3s_cluster"]},
    ),
    "kubespray": (
        {"cluster.yml": "- import_playbook: playbooks/cluster.yml\n", "requirements.txt": "ansible==9\n",
         "playbooks/cluster.yml": plays("k8s_cluster:etcd", "kube_control_plane", "kube_node", "bastion[0]"),
         "scale.yml": plays("kube_node"), "reset.yml": plays("etcd:k8s_cluster:calico_rr")},
        {"control_plane": ["kube_control_plane", "k8s_cluster"], "etcd": "etcd", "node": ["kube_node", "k8s_cluster"]},
    ),
    "rke2": (
        {"site.yml": plays("rke2_cluster", "rke2_servers", "rke2_agents"), "roles/rke2/tasks/main.yml": "[]"},
        {"control_plane": ["rke2_servers", "rke2_cluster"], "etcd": [], "node": ["rke2_agents", "rke2_cluster"]},
    ),
    "role-of-one-group": (
        {"playbook.yml": "", "deploy.yml": plays("k8s"), "requirements.yml": "roles: [{src: geerlingguy.kubernetes}]"},
        {"control_plane": "k8s", "etcd": [], "node": "k8s"},
    ),
    "kubeadm": (
        {"site.yml": plays("all", "masters", "workers")},
        {"control_plane": "masters", "etcd": [], "node": "workers"},
    ),
    "own-names": ({"site.yml": plays("control_plane", "node")},
                  {"control_plane": "control_plane", "etcd": [], "node": "node"}),
    "only-masters-by-name": ({"site.yml": plays("all", "masters")},
                             {"control_plane": "masters", "etcd": [], "node": "node"}),
    "single-playbook": ({"install.yml": plays("all")}, {}),
    "no-inventory-and-variables": ({"site.yml": plays("'{{ target }}'")}, {}),
    "strange-names": ({"site.yml": plays("heads", "hands")},
                      {"control_plane": ["heads", "hands"], "etcd": [], "node": ["heads", "hands"]}),
    "a-strange-name-beside-known-ones": ({"site.yml": plays("masters", "workers", "loadbalancers")},
                                         {"control_plane": "masters", "etcd": [], "node": "workers"}),
    "collections-import": ({"playbooks/site.yml": "- import_playbook: kubernetes_sigs.kubespray.cluster\n",
                            "collections/requirements.yml": "collections: [kubernetes_sigs.kubespray]\n"}, {}),
    "collection": ({"galaxy.yml": "name: ours", "playbooks/deploy.yml": plays("all"), "roles/a/x.yml": "[]"}, {}),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_init_writes_is_accepted_by_the_commands_after_it(tmp_path: Path, layout: str, work: Path) -> None:
    files, groups = LAYOUTS[layout]
    shutil.rmtree(work / "deploy")
    for name, text in files.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text, encoding="utf-8")
    said = call("init --from playbooks --gitlab none")
    assert said.code == 0, said
    assert "repair" not in said.out, said
    assert load_spec(work / "matrix").product.model_dump(mode="json")["groups"] == groups
    for command in ("list", "plan -v"):
        ended = call(command)
        assert ended.code == 0, (command, ended)
        if command == "plan -v":
            why = f"has machines for etcd alone, a group that {work.name} does not have"
            assert (why in " ".join(ended.out.split())) == (groups.get("etcd") == []), ended


def test_phases_are_added_to_the_playbook_that_deploys(work: Path) -> None:
    assert call("init --from playbooks --phase reset=site.yml --gitlab none").code == 0
    assert list(load_spec(work / "matrix").product.phases) == ["deploy", "reset"]
    assert not (work / ".gitlab-ci.yml").exists()


def test_the_packaged_playbooks_in_another_folder(work: Path) -> None:
    said = call("init --packaged new/project")
    assert said.code == 0, said
    assert "  cd new/project" in said.out.splitlines()
    assert call("--project new/project list --tier smoke").code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("init", "nothing says what to begin with"),
        ("init --packaged --playbooks deploy", "--packaged excludes"),
        ("init --packaged --from playbooks", "--packaged excludes"),
        ("init --product declared --playbooks deploy", "--playbooks and --phase exclude --product declared"),
        ("init --product ansibel", "unknown kind of product 'ansibel'; did you mean 'ansible'"),
        ("init --from plybooks", "unknown beginning 'plybooks'; did you mean 'playbooks'"),
        ("init --product command --from playbooks", "--from playbooks makes a product of kind ansible"),
        ("init --product command --playbooks deploy", "--playbooks and --phase exclude --product command"),
        ("init --playbooks nowhere", "does not exist"),
        ("init --from playbooks --gitlab vmatrix", "'vmatrix' is not a path of a GitLab project"),
        ("init --playbooks deploy --phase deploy", "--phase 'deploy' is not PHASE=PLAYBOOK"),
        ("init --playbooks deploy --phase deploy=no.yml", "no.yml does not exist"),
        ("init --playbooks deploy --phase deplay=site.yml", "unknown phase 'deplay'"),
        ("init --packaged deploy/site.yml", "deploy/site.yml is not a folder"),
        ("init --packaged deploy/site.yml/x", "cannot write deploy/site.yml/x: Not a directory"),
    ],
)
def test_bad_input_is_one_message_and_writes_nothing(
    work: Path, monkeypatch: pytest.MonkeyPatch, words: str, message: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())  # no terminal
    before = sorted(work.rglob("*"))
    said = call(words)
    assert said.code == 2, said
    assert message in said.err
    assert said.err.count("hint: ") == 1
    assert sorted(work.rglob("*")) == before


def test_a_declared_product_begins_with_the_operator(work: Path) -> None:
    said = call("init --product declared ours")
    assert said.code == 0, said
    assert (work / "ours" / "objects" / "cluster.yml.j2").is_file()
    assert call("--project ours list --tier clusters").code == 0
    told = call("--project ours explain *-reset-*")
    assert told.code == 0, told
    assert "kubectl --namespace" in told.out
    assert "delete clusterdeployment guest" in told.out
    assert call("--project ours plan --tier clusters").code == 0


def test_files_that_are_there_are_kept(work: Path) -> None:
    (work / ".gitignore").write_text("mine\n", encoding="utf-8")
    said = call("init --packaged")
    assert "kept: .gitignore; a new project has in it:" in said.out
    assert "runs/" in said.out
    assert (work / ".gitignore").read_text(encoding="utf-8") == "mine\n"


def asked(answers: bytes, interrupt: bytes = b"") -> tuple[int, str]:
    """Answer the questions on a terminal; then, once all are answered, press keys that interrupt."""
    ours, theirs = pty.openpty()
    command = [str(Path(sys.executable).with_name("vmatrix")), "init"]
    with (
        interruptible(),
        subprocess.Popen(
            command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        ) as asking,
    ):
        try:
            os.write(ours, answers)
            if interrupt:
                assert asking.stdout is not None
                read_until(asking.stdout.fileno(), b"Name of the product")
                reading(asking)
                asking.send_signal(signal.SIGINT) if interrupt == b"\x03" else os.write(ours, interrupt)
            said, _ = asking.communicate(timeout=SECONDS)
        except BaseException:
            asking.kill()  # leaving the block waits for it
            raise
    os.close(ours)
    os.close(theirs)
    return asking.returncode, said


def read_until(handle: int, wanted: bytes) -> None:
    """Read until something was said."""
    said, end = b"", time.monotonic() + SECONDS
    while wanted not in said and time.monotonic() < end:
        said += os.read(handle, 1024)
    assert wanted in said


def test_a_terminal_is_asked(work: Path) -> None:
    code, said = asked(b"playbooks\n\ny\nours\ngroup/vmatrix\n")
    assert code == 0, said
    assert "Folder of your playbooks [deploy]" in said
    assert "  deploy: site.yml" in said
    assert "group/vmatrix" in (work / ".gitlab-ci.yml").read_text(encoding="utf-8")
    product = load_spec(work / "matrix").product
    assert (product.directory, product.name) == ("deploy", "ours")


def test_other_playbooks_than_the_proposed_can_be_named(work: Path) -> None:
    (work / "deploy" / "new.yml").write_text(PLAY, encoding="utf-8")
    code, said = asked(b"\n\nn\nnew.yml\n\n\n\n\n\n\n\n\n\n\nsite.yml\n\n\nnone\n")
    assert code == 0, said
    phases = load_spec(work / "matrix").product.phases
    assert {name: phase.playbook for name, phase in phases.items()} == {"deploy": "new.yml", "reset": "site.yml"}


@pytest.mark.parametrize(("keys", "code"), [(b"\x04", 2), (b"\x03", 130)], ids=["end of input", "Ctrl-C"])
def test_an_aborted_dialogue_writes_nothing(work: Path, keys: bytes, code: int) -> None:
    before = sorted(work.rglob("*"))
    ended, said = asked(b"\n\ny\n", keys)
    assert ended == code, said
    assert "nothing was written" in said
    assert sorted(work.rglob("*")) == before

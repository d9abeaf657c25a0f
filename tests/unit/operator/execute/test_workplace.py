"""The files that Ansible is given: keys that ssh takes, the way to each machine, paths of what playbooks keep."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.errors import BadInput
from harness.kube.certificates import authority, pem_of
from harness.operator.execute.inputs import OperationFolder
from harness.operator.execute.termination import Termination
from harness.operator.execute.workplace import Workplace, call_of, playbook_of, variables_of
from harness.paths import packaged_dir
from tests.unit.operator.decide.products import GOOD, known
from tests.unit.operator.execute.operations import execution, host, write_folder
from tests.unit.programs import VMATRIX, run_loaded

MIXED = execution(hosts=(host("cp-0", "10.9.9.2"), host("w-0", "10.9.9.3", "node", through="vm-w-0")))


def test_a_key_is_copied_for_nobody_elses_eyes(tmp_path: Path) -> None:
    folder = OperationFolder.load(write_folder(tmp_path / "in", execution()))
    given = Workplace(tmp_path / "work").prepare(folder, None)
    hosts = yaml.safe_load(given.hosts.read_text(encoding="utf-8"))["all"]["hosts"]
    key = Path(hosts["cp-0"]["ansible_ssh_private_key_file"])
    assert key.read_text(encoding="utf-8") == "key of cp-0\n"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert "StrictHostKeyChecking=no" in hosts["cp-0"]["ansible_ssh_common_args"]
    assert "ProxyCommand" not in hosts["cp-0"]["ansible_ssh_common_args"]
    assert given.tunnels is None
    assert given.machines == {("10.9.9.2", 22): "cp-0", ("10.9.9.3", 22): "w-0"}


@pytest.mark.parametrize("there", [True, False])
def test_playbooks_are_told_of_cas_that_there_are(there: bool, tmp_path: Path) -> None:
    path = write_folder(tmp_path / "in", execution())
    if there:
        (path / "authority").mkdir()
    place = Workplace(tmp_path / "work")
    told = yaml.safe_load(place.prepare(OperationFolder.load(path), None).variables.read_text(encoding="utf-8"))
    assert told.get("cluster_authority_path") == (str(place.signing) if there else None)


@pytest.mark.parametrize("outside", [True, False])
def test_machines_are_given_a_ca_without_those_that_issued_it(outside: bool, tmp_path: Path) -> None:
    """Whoever has a certificate of another CA of the same issuer would be somebody in the cluster."""
    now = datetime.now(UTC)
    root, lower = (pem_of(authority(name, now, timedelta(days=9))[0]) for name in ("root", "lower"))
    path = write_folder(tmp_path / "in", execution(variables={"cluster_external_ca": outside}))
    for file, content in {"ca.crt": lower + root, "etcd/ca.crt": root, "ca.key": b"key", "sa.pub": b"public"}.items():
        (path / "authority" / file).parent.mkdir(parents=True, exist_ok=True)
        (path / "authority" / file).write_bytes(content)
    place = Workplace(tmp_path / "work")
    place.prepare(OperationFolder.load(path), None)
    files = {str(one.relative_to(place.signing)): one.read_bytes() for one in place.signing.rglob("*") if one.is_file()}
    assert files == {"ca.crt": lower, "etcd/ca.crt": root, "ca.key": b"key", "sa.pub": b"public"}


def test_what_is_no_certificate_is_named(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "in", execution())
    (path / "authority").mkdir()
    (path / "authority" / "ca.crt").write_bytes(b"nothing of that form")
    with pytest.raises(BadInput, match=r"authority/ca.crt is not a certificate as PEM"):
        Workplace(tmp_path / "work").prepare(OperationFolder.load(path), None)


def test_only_machines_that_need_it_are_reached_through_the_api(tmp_path: Path) -> None:
    folder = OperationFolder.load(write_folder(tmp_path / "in", MIXED))
    given = Workplace(tmp_path / "work").prepare(folder, tmp_path / "kubeconfig")
    hosts = yaml.safe_load(given.hosts.read_text(encoding="utf-8"))["all"]["hosts"]
    assert "ProxyCommand" not in hosts["cp-0"]["ansible_ssh_common_args"]
    assert "ProxyCommand" in hosts["w-0"]["ansible_ssh_common_args"]
    assert given.tunnels is not None
    way = json.loads(given.tunnels.read_text(encoding="utf-8"))
    assert (way["namespace"], way["instances"]) == ("clusters", {"10.9.9.3": "vm-w-0"})
    assert way["kubeconfig"] == [str(tmp_path / "kubeconfig")]


def test_without_a_way_to_a_machine_nothing_begins(tmp_path: Path) -> None:
    folder = OperationFolder.load(write_folder(tmp_path / "in", MIXED))
    with pytest.raises(BadInput, match="w-0: reached through the infra cluster's API, and no kubeconfig"):
        Workplace(tmp_path / "work").prepare(folder, None)


def test_a_missing_key_is_named_with_its_machine(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "in", execution())
    (path / "keys" / "w-0-ssh" / "ssh-privatekey").unlink()
    with pytest.raises(BadInput, match="the SSH key of w-0 cannot be read"):
        Workplace(tmp_path / "work").prepare(OperationFolder.load(path), None)


def test_what_playbooks_keep_lies_where_the_executor_looks_for_it(tmp_path: Path) -> None:
    wanted = execution(variables={"cluster_kubeconfig_path": "/elsewhere", "cluster_pod_cidr": "10.0.0.0/16"})
    place = Workplace(tmp_path / "work")
    given = place.prepare(OperationFolder.load(write_folder(tmp_path / "in", wanted)), None)
    variables = yaml.safe_load(given.variables.read_text(encoding="utf-8"))
    assert variables["cluster_kubeconfig_path"] == str(place.state / "kubeconfig")
    assert variables["cluster_pod_cidr"] == "10.0.0.0/16"


THEIRS = execution(product=known(), entry="site.yml", variables={"cluster_pod_cidr": "10.0.0.0/16"})


def written(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return found


def test_the_inventory_has_the_groups_under_the_names_of_the_product(tmp_path: Path) -> None:
    groups = written(write_folder(tmp_path, THEIRS) / "hosts.yml")["all"]["children"]
    assert set(groups["kube_control_plane"]["hosts"]) == set(groups["control_plane"]["hosts"]) == {"cp-0"}
    assert set(groups["workers"]["hosts"]) == set(groups["kube_node"]["hosts"]) == {"w-0"}
    assert json.loads((tmp_path / "operation.json").read_text())["entry"] == "site.yml"


def test_a_group_without_machines_is_there_under_both_names(tmp_path: Path) -> None:
    made = execution(product=known(), hosts=THEIRS.hosts[:1])
    groups = written(write_folder(tmp_path, made) / "hosts.yml")["all"]["children"]
    assert groups["workers"] == groups["node"] == {"hosts": {}}


def test_variables_have_both_names_and_those_of_the_cluster_win(tmp_path: Path) -> None:
    folder = OperationFolder.load(write_folder(tmp_path / "in", THEIRS))
    given = written(Workplace(tmp_path / "work").prepare(folder, None).variables)
    kept = str(tmp_path / "work" / "state" / "kubeconfig")
    assert (given["pods"], given["cluster_pod_cidr"]) == ("10.0.0.0/16", "10.0.0.0/16")
    assert (given["kubeconfig_file"], given["cluster_kubeconfig_path"]) == (kept, kept)
    assert (given["kube_proxy_mode"], given["first"]) == ("ipvs", True)
    assert variables_of(known(), "reset", {"kube_proxy_mode": "nftables"})["kube_proxy_mode"] == "nftables"
    assert "first" not in variables_of(known(), "reset", {})


def test_ansible_is_called_as_the_product_wants_it() -> None:
    call = call_of(known(), "scale", Path("/image"))
    assert call.config == Path("/image/deploy/ansible.cfg")
    assert call.arguments == ("--become", "--diff", "--tags", "nodes")
    assert playbook_of(known(), "grow.yml", Path("/image")) == Path("/image/deploy/grow.yml")
    assert playbook_of(known(), "grow.yml", None) == Path.cwd() / "deploy" / "grow.yml"


def test_without_a_product_file_the_playbooks_are_ours() -> None:
    assert playbook_of(None, "cluster.yml", None) == packaged_dir() / "playbooks" / "cluster.yml"
    assert playbook_of(None, "cluster.yml", Path("/mine")) == Path("/mine/cluster.yml")
    assert call_of(None, "deploy", None).arguments == ()
    assert variables_of(None, "deploy", {"a": 1}) == {"a": 1}


def test_a_product_file_that_was_spoilt_by_hand_is_refused(tmp_path: Path) -> None:
    path = write_folder(tmp_path, THEIRS)
    (path / "product.yml").write_text("product: {}")
    with pytest.raises(BadInput, match=r"product\.name: missing"):
        OperationFolder.load(path)


def run(folder: Path, tasks: list[dict[str, Any]], **changes: Any) -> Termination:
    """Run an operation of their playbooks by hand, with a real Ansible, on this host; return how it ended."""
    text = GOOD.replace("become: true", "become: false")
    made = execution(product=known(text), hosts=(host("cp-0"),), **changes)
    write_folder(folder / "in", made, local=True)
    deploy = folder / "deploy"
    deploy.mkdir()
    (deploy / "ansible.cfg").write_text("[defaults]\nany_errors_fatal = true\n")
    play = [{"name": "Theirs", "hosts": "kube_control_plane", "gather_facts": False, "tasks": tasks}]
    (deploy / "site.yml").write_text(yaml.safe_dump(play))
    report = folder / "report.json"
    words: list[str | Path] = ["operator", "execute", "--from", folder / "in", "--playbooks", folder]
    done = run_loaded([VMATRIX, *words, "--report", report], cwd=Path.cwd())
    end = Termination.parse(report.read_text(encoding="utf-8"))
    assert end is not None, done.stdout + done.stderr
    return end


def test_their_playbook_runs_with_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    content = "{{ pods }} {{ first }} {{ kube_proxy_mode }} {{ groups.kube_control_plane }}\n"
    keep = {"name": "Keep", "ansible.builtin.copy": {"dest": "{{ kubeconfig_file }}", "content": content}}
    end = run(tmp_path, [keep], entry="site.yml", variables={"cluster_pod_cidr": "10.0.0.0/16"})
    assert end.outcome == "succeeded", end.summary
    kept = (tmp_path / "in" / "work" / "state" / "kubeconfig").read_text(encoding="utf-8")
    assert kept == "10.0.0.0/16 True ipvs ['cp-0']\n"
    log = (tmp_path / "in" / "work" / "ansible.log").read_text(encoding="utf-8")
    assert f"ANSIBLE_CONFIG={tmp_path}/deploy/ansible.cfg" in log
    assert "--diff" in log


def test_a_playbook_that_the_image_does_not_have_is_the_users_to_put_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    end = run(tmp_path, [], entry="grow.yml")
    assert (end.outcome, end.blame) == ("failed", "user")
    assert f"there is no playbook grow.yml in {tmp_path}/deploy" in end.summary
    assert end.hint == "spec.playbooks.image has to have what the product file names"


def test_an_executor_signs_with_copies_that_it_does_not_keep(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "in", execution(variables={"cluster_external_ca": True}))
    for name in ("ca.key", "etcd/ca.key", "..2026/ca.key"):  # the last as a Secret's volume has them
        (path / "authority" / name).parent.mkdir(parents=True, exist_ok=True)
        (path / "authority" / name).write_text(name)
    place = Workplace(tmp_path / "work")
    told = yaml.safe_load(place.prepare(OperationFolder.load(path), None).variables.read_text(encoding="utf-8"))
    assert told["cluster_external_ca_folder"] == str(place.signing)
    assert "cluster_authority_path" not in told
    files = {str(one.relative_to(place.signing)): one for one in place.signing.rglob("*") if one.is_file()}
    assert set(files) == {"ca.key", "etcd/ca.key"}
    assert {stat.S_IMODE(one.stat().st_mode) for one in files.values()} == {0o600}
    assert place.kept() == {}
    place.forget()
    assert not place.signing.exists()

"""Names of an operation's objects: the same for the same attempt, another for every other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.operator.api.machine import KeyRef
from harness.operator.execute.inputs import OperationFolder, key_file, log_name
from tests.unit.operator.execute.operations import execution, host, write_folder


@pytest.mark.parametrize(("attempt", "name"), [(1, "prod-3-deploy"), (2, "prod-3-deploy-2")])
def test_an_attempt_has_one_name(attempt: int, name: str) -> None:
    made = execution(attempt=attempt)
    assert made.job == name
    assert log_name(made.job) == f"{name}-log"
    assert made.labels["cluster.vmatrix.dev/attempt"] == str(attempt)


def test_keys_of_two_secrets_do_not_share_a_file() -> None:
    assert key_file(KeyRef(name="a", key="id")) == "keys/a/id"
    assert key_file(KeyRef(name="a", key="id")) != key_file(KeyRef(name="b", key="id"))


def test_a_folder_says_what_the_operation_was(tmp_path: Path) -> None:
    made = execution(hosts=(host("cp-0", "10.9.9.2", "control_plane", "etcd"), host("w-0", "10.9.9.3", through="vm-w")))
    found = OperationFolder.load(write_folder(tmp_path, made))
    assert (found.cluster, found.namespace, found.job) == ("prod", "clusters", "prod-3-deploy")
    assert (found.operation, found.entry, found.deadline_seconds) == ("deploy", "cluster.yml", 3600)
    assert found.hosts["cp-0"]["ansible_host"] == "10.9.9.2"
    assert found.hosts["w-0"]["ansible_ssh_private_key_file"] == "keys/w-0-ssh/ssh-privatekey"
    assert found.through == {"w-0": "vm-w"}
    assert list(found.inventory["all"]["children"]["etcd"]["hosts"]) == ["cp-0"]
    assert found.inventory["all"]["children"]["node"] == {"hosts": {}}
    assert found.variables == {"cluster_kubernetes_version": "1.36.3"}


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("hosts.yml", "all: {hosts: {}}", "hosts.yml: all.hosts has no machine"),
        ("hosts.yml", "[", "hosts.yml:1: malformed YAML"),
        ("hosts.yml", "word", "hosts.yml: it is not a mapping"),
        ("hosts.yml", "all: {hosts: [cp-0]}", "hosts.yml: all.hosts has no machine"),
        ("extra-vars.yml", "- 1", "extra-vars.yml: it is not a mapping"),
        ("operation.json", "{}", "operation.json: 'cluster' is missing"),
    ],
)
def test_a_mistake_is_told_with_its_file(file: str, content: str, said: str, tmp_path: Path) -> None:
    write_folder(tmp_path, execution())
    (tmp_path / file).write_text(content, encoding="utf-8")
    with pytest.raises(BadInput) as refused:
        OperationFolder.load(tmp_path)
    assert said in refused.value.summary
    assert refused.value.hint


@pytest.mark.parametrize(
    ("change", "said"),
    [({"deadlineSeconds": "soon"}, "could not convert"), ({"through": {"w-7": "vm"}}, "through names w-7")],
)
def test_an_operation_that_contradicts_itself_is_refused(change: dict[str, object], said: str, tmp_path: Path) -> None:
    path = write_folder(tmp_path, execution()) / "operation.json"
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **change}), encoding="utf-8")
    with pytest.raises(BadInput, match=said):
        OperationFolder.load(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"operation.json: .*No such file"):
        OperationFolder.load(tmp_path)

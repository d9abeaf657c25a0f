"""What a playbook would change, as its output says it."""

from __future__ import annotations

from harness.operator.execute.operation_run import changes, scrubber_of

OUTPUT = """
PLAY [First] *******************************************************************

TASK [etcd : Write the configuration] ******************************************
ok: [cp-0]
changed: [cp-1]

TASK [Start] *******************************************************************
changed: [cp-0]
changed: [cp-0] => (item=a)

RUNNING HANDLER [Restart] ******************************************************
changed: [cp-1]

PLAY RECAP *********************************************************************
cp-0 : ok=2 changed=1 unreachable=0 failed=0
"""


def test_each_change_is_named_once_with_its_task_and_its_machine() -> None:
    named = changes(OUTPUT)
    assert named[:2] == ["[etcd : Write the configuration] on cp-1", "[Start] on cp-0"]
    assert len(named) == 3


def test_output_without_a_change_names_none() -> None:
    assert changes(OUTPUT.replace("changed:", "ok:")) == []


TOKEN, KEY = "abcdef.0123456789abcdef", "9f" * 32
KUBECONFIG = b"""
clusters: [{name: kubernetes, cluster: {server: "https://10.9.9.2:6443", certificate-authority-data: QUJDREVGRw==}}]
users: [{name: join, user: {token: abcdef.0123456789abcdef, client-key-data: U0VDUkVUU0VDUkVU}}]
"""


def test_credentials_that_are_kept_are_masked_and_addresses_are_not() -> None:
    scrub = scrubber_of({}, {"kubeconfig": KUBECONFIG, "kubeconfig.certificate-key": f"{KEY}\n".encode()})
    said = scrub(f"join https://10.9.9.2:6443 --token {TOKEN} --certificate-key {KEY} U0VDUkVUU0VDUkVU kubernetes")
    assert TOKEN not in said
    assert KEY not in said
    assert "U0VDUkVU" not in said
    assert "https://10.9.9.2:6443" in said
    assert "kubernetes" in said


def test_variables_named_like_secrets_are_masked_wherever_they_lie() -> None:
    variables = {
        "registries": [{"password": "correct-horse", "user": "somebody-known"}],
        "cluster_dns_domain": "a.local",
    }
    said = scrubber_of(variables, {})("correct-horse of somebody-known in a.local")
    assert "correct-horse" not in said
    assert "of somebody-known in a.local" in said


def test_a_file_that_is_no_yaml_is_masked_whole() -> None:
    assert "a: [b: c" not in scrubber_of({}, {"kubeconfig.x": b"a: [b: c"})("x a: [b: c y")

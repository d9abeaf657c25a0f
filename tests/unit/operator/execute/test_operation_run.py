"""What a playbook would change, as its output says it."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import yaml
from cryptography.hazmat.primitives.hashes import SHA256

from harness.kube.certificates import authority, leaf, pem_of
from harness.operator.execute.operation_run import authorities, changes, scrubber_of

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
    scrub = scrubber_of(
        {}, {"kubeconfig": KUBECONFIG, "kubeconfig.certificate-key": f"# The key ends at 2026\n{KEY}\n".encode()}
    )
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


def test_authorities_are_known_by_name_wherever_they_are_kept_and_leaves_are_not() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    cluster, etcd = (authority(name, now, timedelta(days=9)) for name in ("kubernetes", "etcd-ca"))
    client = leaf(etcd, "client", now=now, lifetime=timedelta(days=1), client=True)
    encoded = base64.b64encode(pem_of(cluster[0])).decode()
    kubeconfig = f"clusters:\n- cluster:\n    certificate-authority-data: {encoded}\n"
    files = yaml.safe_dump({"ca.crt": pem_of(etcd[0]).decode(), "client.crt": pem_of(client[0]).decode()})
    folded = yaml.safe_dump({"ca": pem_of(etcd[0]).decode()}, default_style="|")
    kept = {"kubeconfig": kubeconfig.encode(), "kubeconfig.etcd-ca": folded.encode(), "kubeconfig.x": files.encode()}
    found = authorities(kept)
    assert found == {
        "authority-kubernetes": cluster[0].fingerprint(SHA256()).hex(),
        "authority-etcd-ca": etcd[0].fingerprint(SHA256()).hex(),
    }
    assert authorities({"kubeconfig": b"no certificate: \xff"}) == {}

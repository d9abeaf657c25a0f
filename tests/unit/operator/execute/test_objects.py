"""The objects of an operation: their order, what the executor may do, and where its pod's files come from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.operator.execute.objects import objects_of
from tests.unit.operator.execute.etcd_files import place
from tests.unit.operator.execute.operations import OWNER, execution, host


def of_kind(kind: str, made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [body for body in made if body["kind"] == kind]


def test_the_job_is_last_and_all_of_it_goes_with_the_cluster() -> None:
    made = objects_of(execution(), OWNER)
    kinds = ["ServiceAccount", "Role", "RoleBinding", "Secret", "ConfigMap", "ConfigMap", "Job"]
    assert [body["kind"] for body in made] == kinds
    for body in made:
        (owner,) = body["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("Cluster", OWNER["metadata"]["uid"])
        assert body["metadata"]["namespace"] == "clusters"
        assert body["metadata"]["labels"]["cluster.vmatrix.dev/cluster"] == "prod"


def test_the_state_is_made_empty_and_inputs_cannot_change() -> None:
    made = objects_of(execution(), OWNER)
    (state,) = of_kind("Secret", made)
    inputs, log = of_kind("ConfigMap", made)
    assert "data" not in state
    assert inputs["immutable"] is True
    assert set(inputs["data"]) == {"hosts.yml", "extra-vars.yml", "operation.json"}
    assert "data" not in log
    assert "immutable" not in log


def test_an_executor_may_forward_only_to_machines_that_need_it() -> None:
    direct = of_kind("Role", objects_of(execution(), OWNER))[0]["rules"]
    assert {name for rule in direct for name in rule["resources"]} == {"secrets", "configmaps", "jobs"}
    behind = replace(execution(), hosts=(host("cp-0", through="vm-cp"), host("w-0")))
    (forward,) = (r for r in of_kind("Role", objects_of(behind, OWNER))[0]["rules"] if "/" in r["resources"][0])
    assert forward["resources"] == ["virtualmachineinstances/portforward"]
    assert forward["resourceNames"] == ["vm-cp"]
    assert all(rule["resourceNames"] for rule in direct)


def test_each_secret_of_keys_is_mounted_once_for_its_owner_alone() -> None:
    shared = replace(host("w-1"), key=host("w-0").key)
    made = objects_of(execution(hosts=(host("w-0"), shared, host("cp-0"))), OWNER)
    pod = of_kind("Job", made)[0]["spec"]["template"]["spec"]
    (inputs,) = (volume for volume in pod["volumes"] if volume["name"] == "inputs")
    secrets = [source["secret"] for source in inputs["projected"]["sources"] if "secret" in source]
    assert [one["name"] for one in secrets] == ["cp-0-ssh", "w-0-ssh"]
    assert secrets[0]["items"] == [{"key": "ssh-privatekey", "path": "keys/cp-0-ssh/ssh-privatekey", "mode": 0o400}]


def test_cas_are_mounted_from_their_secrets_for_the_owner_alone() -> None:
    files = {"ca.crt": ("prod-ca", "tls.crt"), "ca.key": ("prod-ca", "tls.key"), "etcd/ca.key": ("own", "tls.key")}
    pod = of_kind("Job", objects_of(execution(authority=files), OWNER))[0]["spec"]["template"]["spec"]
    (inputs,) = (volume for volume in pod["volumes"] if volume["name"] == "inputs")
    secrets = [source["secret"] for source in inputs["projected"]["sources"] if "secret" in source][-2:]
    assert secrets == [
        {
            "name": "prod-ca",
            "items": [
                {"key": "tls.crt", "path": "authority/ca.crt", "mode": 0o400},
                {"key": "tls.key", "path": "authority/ca.key", "mode": 0o400},
            ],
        },
        {"name": "own", "items": [{"key": "tls.key", "path": "authority/etcd/ca.key", "mode": 0o400}]},
    ]


def test_more_machines_need_more_memory() -> None:
    def limit(machines: int) -> str:
        hosts = tuple(host(f"w-{number}") for number in range(machines))
        pod = of_kind("Job", objects_of(execution(hosts=hosts), OWNER))[0]["spec"]["template"]["spec"]
        return str(pod["containers"][0]["resources"]["limits"]["memory"])

    assert int(limit(2).removesuffix("Mi")) < int(limit(20).removesuffix("Mi")) < 4096
    assert limit(50) == limit(500)


def test_a_drill_has_room_for_restored_data_and_reads_its_claim_only() -> None:
    def pod_of(operation: str, **where: Any) -> dict[str, Any]:
        made = execution(operation=operation, snapshot=place(**where))
        pod: dict[str, Any] = of_kind("Job", objects_of(made, OWNER))[0]["spec"]["template"]["spec"]
        return pod

    def memory(pod: dict[str, Any]) -> int:
        return int(pod["containers"][0]["resources"]["limits"]["memory"].removesuffix("Mi"))

    drill, backup = pod_of("drill"), pod_of("backup")
    pods = (drill, pod_of("clone"), backup)
    rooms = [{one["name"]: one for one in pod["volumes"]}["temporary"]["emptyDir"] for pod in pods]
    assert rooms == [{"sizeLimit": "20Gi"}, {"sizeLimit": "20Gi"}, {"sizeLimit": "1Gi"}]
    assert memory(drill) == memory(backup) + 2048
    mounts = [
        next(one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "snapshots")
        for pod in (drill, backup, pod_of("drill", claim=None, s3={"bucket": "backups", "secretRef": {"name": "keys"}}))
    ]
    assert [one.get("readOnly", False) for one in mounts] == [True, False, False]


def test_what_opens_a_bucket_is_mounted_apart_and_the_snapshot_has_room_meanwhile() -> None:
    s3 = {
        "bucket": "backups",
        "secretRef": {"name": "keys"},
        "caSecretRef": {"name": "trust", "key": "root.pem"},
        "encryptionKeyRef": {"name": "sealed", "key": "k"},
    }
    about = place(claim=None, s3=s3)
    pod = of_kind("Job", objects_of(replace(execution(), snapshot=about), OWNER))[0]["spec"]["template"]["spec"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["snapshots"] == {"name": "snapshots", "emptyDir": {"sizeLimit": "20Gi"}}
    secrets = [source["secret"] for source in volumes["store"]["projected"]["sources"]]
    assert [(one["name"], *one["items"][0].values(), one["optional"]) for one in secrets] == [
        ("keys", "accessKeyId", "credentials/accessKeyId", False),
        ("keys", "secretAccessKey", "credentials/secretAccessKey", False),
        ("keys", "sessionToken", "credentials/sessionToken", True),
        ("trust", "root.pem", "ca.crt", False),
        ("sealed", "k", "encryption.key", False),
    ]
    (container,) = pod["containers"]
    assert container["args"][-4:] == ["--snapshots", "/var/lib/vmatrix/snapshots", "--store", "/var/run/vmatrix/store"]
    mounts = {one["name"]: one for one in container["volumeMounts"]}
    assert mounts["store"]["readOnly"] is True
    assert "readOnly" not in mounts["snapshots"]


def test_a_claim_needs_no_bucket() -> None:
    pod = of_kind("Job", objects_of(replace(execution(), snapshot=place()), OWNER))[0]["spec"]["template"]["spec"]
    assert [volume["name"] for volume in pod["volumes"]] == ["inputs", "account", "temporary", "snapshots"]
    assert "--store" not in pod["containers"][0]["args"]

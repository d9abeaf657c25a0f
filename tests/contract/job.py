"""A job as deploy/rbac lets it in: the contract tests make the harness's calls with its rights and no others."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from harness.cell.place import cell_labels
from harness.cell.provision import join_namespace
from harness.kube.client import Cluster
from harness.kube.resources import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    NAMESPACE,
    ROLE,
    ROLE_BINDING,
    SERVICE_ACCOUNT,
    VM,
    Resource,
)
from harness.paths import project_dir
from harness.until import NotYet, until
from tests.contract.limits import lasting, patience, within

Json = dict[str, Any]
PROJECT = "contract"
ADMISSION_POLICY = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False
)
ADMISSION_POLICY_BINDING = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
KUBECONFIG = "job.kubeconfig"
KINDS: dict[str, Resource] = {
    r.kind: r
    for r in (
        NAMESPACE,
        ROLE,
        ROLE_BINDING,
        CLUSTER_ROLE,
        CLUSTER_ROLE_BINDING,
        ADMISSION_POLICY,
        ADMISSION_POLICY_BINDING,
    )
}
RBAC = project_dir() / "deploy" / "rbac"
READY_SECONDS = 60.0
LONG_SECONDS = 6 * 3600


def _objects(account: Json) -> Iterator[Json]:
    """Yield deploy/rbac's objects with the account in place of GitLab's groups, each under a name of its own.

    Namespaces and roles in them keep theirs; bindings are added to those that the cluster's owner may have made.
    """
    files = [*sorted((RBAC / "namespace-per-cell").glob("[!k]*.yml")), RBAC / "project" / "project.yml"]
    for path in files:
        text = path.read_text(encoding="utf-8").replace("1001", PROJECT)
        for obj in yaml.safe_load_all(text):
            if "subjects" in obj:
                obj["subjects"] = [account]
                obj["metadata"]["name"] += f"-{account['name']}"
            yield obj


@contextmanager
def let_in(admin: Cluster, kubeconfig: Path, folder: Path) -> Iterator[Cluster]:
    """Apply deploy/rbac with a fresh service account for GitLab's jobs; return its client.

    At the end the account and its bindings are taken away; roles and policies stay: cells may be using them.
    """
    name = f"contract-{secrets.token_hex(3)}"
    home = {"name": name, "labels": {"vmatrix.dev/contract": "true"}}
    admin.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": home})
    meta = {"name": name, "namespace": name}
    admin.create(SERVICE_ACCOUNT, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
    made = list(_objects({"kind": "ServiceAccount", **meta}))
    for obj in made:
        admin.apply(KINDS[obj["kind"]], obj)
    try:
        job = _client(admin, kubeconfig, name, folder)
        _wait_until_let_in(job)
        yield job
    finally:
        for obj in made:
            if "subjects" in obj:
                admin.delete(KINDS[obj["kind"]], obj["metadata"]["name"], obj["metadata"].get("namespace"))
        admin.delete(NAMESPACE, name)


def _client(admin: Cluster, kubeconfig: Path, name: str, folder: Path) -> Cluster:
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": LONG_SECONDS},
    }
    answer = admin.request("POST", SERVICE_ACCOUNT.path(name, name, "token"), body=request)
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    for user in config["users"]:
        user["user"] = {"token": answer["status"]["token"]}
    path = folder / KUBECONFIG
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return Cluster.from_kubeconfig(path, patience=patience())


def _wait_until_let_in(job: Cluster) -> None:
    """Wait until roles and policies hold: a namespace of the project may be made, one of nobody's may not."""

    def holds() -> bool | NotYet:
        codes = []
        for labels in (labels_of("probe"), {}):
            meta = {"name": "contract-probe", "labels": labels}
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
            codes.append(job.send("POST", NAMESPACE.path(), body=body, query={"dryRun": "All"}).code)
        return codes == [201, 403] or NotYet(f"namespaces of the project and of nobody are answered {codes}")

    until(holds, deadline=within(READY_SECONDS), what="deploy/rbac to be in force", interval=0.3)


def labels_of(name: str) -> dict[str, str]:
    """Return the labels of a namespace that a job makes for a test."""
    return cell_labels(
        run="contra", cell=name, attempt=1, expires_at=1_900_000_000.0, environment={"CI_PROJECT_ID": PROJECT}
    )


def make_namespace(job: Cluster, name: str) -> None:
    """Make a namespace and see to it that the job may work in it, as a cell does."""
    labels = {**labels_of(name), "pod-security.kubernetes.io/enforce": "privileged"}
    job.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    join_namespace(job, name, labels, lasting(20.0))
    job.list(VM, name)

"""An embedded infrastructure with deploy/ applied to it by kubectl, an audit log, and jobs that log in with tokens."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import proc
from harness.artifacts.recipe import silent
from harness.artifacts.store import Store
from harness.kube import Cluster
from harness.kube.resources import NAMESPACE, SERVICE_ACCOUNT
from harness.paths import project_dir
from harness.providers.embedded import EmbeddedProvider, embedded_provider
from harness.providers.on_host import KUBERNETES
from harness.until import Deadline, NotYet, until
from tests.embedded.conftest import PREFIX
from tests.embedded.rights.audit import POLICY, Log
from tests.embedded.rights.identity import Issuer, issuing

KUBECTL_SECONDS = 60.0
UP_SECONDS = 600.0  # also on a host that is busy with other tests
PROJECT, OTHER = 1001, 2002
DEPLOY = project_dir() / "deploy"


@dataclass(frozen=True)
class Person:
    """Somebody who has logged in: the name that the API knows, the client, and the kubeconfig."""

    user: str
    cluster: Cluster
    kubeconfig: Path


@dataclass(frozen=True)
class Ground:
    """The infrastructure, its administrator, its audit log, the issuer that it trusts, and a folder for kubeconfigs."""

    provider: EmbeddedProvider
    admin: Cluster
    log: Log
    issuer: Issuer
    folder: Path

    def kubectl(self, *words: str | Path) -> str:
        """Run kubectl as the administrator and return what it prints."""
        kubectl = Store().obtain("kubectl", KUBERNETES).file("kubectl")
        command = [str(kubectl), "--kubeconfig", str(self.provider.kubeconfig()), *map(str, words)]
        return proc.run(command, timeout=KUBECTL_SECONDS).stdout

    def with_token(self, user: str, token: str) -> Person:
        """Return somebody who has a token."""
        path = kubeconfig_of(token, self.provider, self.folder)
        return Person(user, Cluster.from_kubeconfig(path), path)

    def job(self, project: int, path: str, **claims: Any) -> Person:
        """Return a job of a GitLab project, logged in with its id_token."""
        token = self.issuer.token(self.issuer.claims(project, path, **claims))
        return self.with_token(f"gitlab:{path}", token)

    def account(self, namespace: str, name: str) -> Person:
        """Return a service account that exists."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = self.admin.request("POST", SERVICE_ACCOUNT.path(namespace, name, "token"), body=request)
        return self.with_token(f"system:serviceaccount:{namespace}:{name}", answer["status"]["token"])


def kubeconfig_of(token: str, provider: EmbeddedProvider, folder: Path) -> Path:
    """Write a kubeconfig of somebody who has a token into a folder."""
    config = yaml.safe_load(provider.kubeconfig().read_text(encoding="utf-8"))
    config["users"][0]["user"] = {"token": token}
    path = folder / f"{secrets.token_hex(4)}.kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def authentication(issuer: Issuer) -> dict[str, Any]:
    """Return deploy/'s configuration with the tests' issuer in place of the example's."""
    path = DEPLOY / "authentication" / "authentication-configuration.yml"
    config: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    (jwt,) = config["jwt"]
    jwt["issuer"] |= {"url": issuer.url, "certificateAuthority": issuer.authority}
    return config


def let_in(ground: Ground, project: int) -> None:
    """Apply deploy/rbac/project for a project."""
    path = DEPLOY / "rbac" / "project" / "project.yml"
    copy = ground.folder / f"project-{project}.yml"
    copy.write_text(path.read_text(encoding="utf-8").replace("1001", str(project)), encoding="utf-8")
    ground.kubectl("apply", "-f", copy)


@pytest.fixture(scope="session")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Bring everything up; deploy/ is applied with kubectl's own kustomize."""
    folder = tmp_path_factory.mktemp("rights")
    log, policy, login = folder / "audit.log", folder / "audit-policy.yml", folder / "authentication.yml"
    policy.write_text(json.dumps(POLICY), encoding="utf-8")
    log.touch()
    with issuing(folder) as issuer:
        login.write_text(yaml.safe_dump(authentication(issuer)), encoding="utf-8")
        flags = {
            "audit-policy-file": policy,
            "audit-log-path": log,
            "audit-log-mode": "blocking-strict",
            "authentication-config": login,
        }
        base = embedded_provider(f"{PREFIX}{os.getpid()}-rights", Store(), progress=silent)
        provider = EmbeddedProvider(replace(base.host.config, api_flags=flags, up_seconds=UP_SECONDS))
        try:
            provider.up()
            admin = Cluster.from_kubeconfig(provider.kubeconfig())
            made = Ground(provider, admin, Log(log), issuer, folder)
            made.kubectl("apply", "-k", DEPLOY / "rbac" / "namespace-per-cell")
            for project in (PROJECT, OTHER):
                let_in(made, project)
            _wait_for_policy(made)
            yield made
        finally:
            provider.down()


def _wait_for_policy(ground: Ground) -> None:
    """Wait until the policies hold: an API server compiles a new one within a second or so."""
    job = ground.job(PROJECT, "platform/app")

    def holds() -> bool | NotYet:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "vmatrix-unlabelled"}}
        answer = job.cluster.send("POST", NAMESPACE.path(), body=body, query={"dryRun": "All"})
        return (answer.code == 403 and "of no project" in str(answer.body)) or NotYet(f"{answer.code} {answer.body}")

    until(holds, deadline=Deadline.after(60), what="deploy/'s policies hold", interval=0.3)


@pytest.fixture(scope="session")
def _given_namespace(ground: Ground) -> None:
    """Have the namespace that cells share, with its role; it goes with the infrastructure."""
    ground.kubectl("apply", "-k", DEPLOY / "rbac" / "given-namespace")


@pytest.fixture
def names() -> Callable[[], str]:
    """Return a maker of fresh names."""
    return lambda: f"vmatrix-{secrets.token_hex(4)}"

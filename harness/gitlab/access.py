"""A job's way into the infra cluster: a kubeconfig for this job alone, by a token that ends with it.

Never a kubeconfig that lives longer: either GitLab's own token for the job, which the cluster trusts by structured
authentication, or the service account of the job's pod. The file lies outside of the checkout, so in no artifact.
https://docs.gitlab.com/ci/secrets/id_token_authentication/
https://kubernetes.io/docs/reference/access-authn-authz/authentication/#using-authentication-configuration
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from harness import paths
from harness.errors import BadInput

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
SERVER, CA, TOKEN = "MATRIX_API_SERVER", "MATRIX_API_CA", "MATRIX_ID_TOKEN"
FILE = "kubeconfig"


def job_kubeconfig(run: str, environment: Mapping[str, str], *, service_account: Path = SERVICE_ACCOUNT) -> Path:
    """Write the job's kubeconfig, readable for its user alone, and return its path; the same one for the same run.

    Raises:
        BadInput: the job has neither a token with an API server's address, nor a service account.
    """
    if environment.get(SERVER):
        content = _with_id_token(environment)
    elif (service_account / "token").is_file() and environment.get("KUBERNETES_SERVICE_HOST"):
        content = _with_service_account(environment, service_account)
    else:
        raise BadInput(
            "the job has no way into the infra cluster",
            hint=f"either set {SERVER} (and {CA}), and let that cluster trust GitLab's id tokens; or run the job in "
            "that cluster with a service account: docs/gitlab.md",
        )
    path = paths.state_dir() / "gitlab" / run / FILE
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        yaml.safe_dump(content, file, sort_keys=False)
    return path


def forget(run: str) -> None:
    """Remove what `job_kubeconfig` wrote."""
    path = paths.state_dir() / "gitlab" / run / FILE
    path.unlink(missing_ok=True)
    if path.parent.is_dir() and not any(path.parent.iterdir()):
        path.parent.rmdir()


def _with_id_token(environment: Mapping[str, str]) -> dict[str, Any]:
    if not environment.get(TOKEN):
        raise BadInput(
            f"{SERVER} is set and {TOKEN} is not", hint=f"the job needs `id_tokens: {{{TOKEN}: {{aud: vmatrix}}}}`"
        )
    ca = environment.get(CA, "")
    if ca and not Path(ca).is_file():
        raise BadInput(f"{CA} names {ca}, which is no file", hint="make it a CI/CD variable of type File")
    cluster = {"server": environment[SERVER], **({"certificate-authority": ca} if ca else {})}
    return _kubeconfig(cluster, {"token": environment[TOKEN]})


def _with_service_account(environment: Mapping[str, str], account: Path) -> dict[str, Any]:
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    cluster = {"server": server, "certificate-authority": str(account / "ca.crt")}
    return _kubeconfig(cluster, {"tokenFile": str(account / "token")})


def _kubeconfig(cluster: Mapping[str, str], user: Mapping[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "infra", "cluster": dict(cluster)}],
        "users": [{"name": "job", "user": dict(user)}],
        "contexts": [{"name": "job", "context": {"cluster": "infra", "user": "job"}}],
        "current-context": "job",
    }

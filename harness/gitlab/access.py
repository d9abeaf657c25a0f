"""A job's access to the infra cluster: a kubeconfig for this job alone, by a token that ends with it.

Never a kubeconfig that lives longer: either GitLab's own token for the job, which the cluster trusts by structured
authentication, or the service account of the job's pod. The file lies outside of the checkout, so in no artifact.
https://docs.gitlab.com/ci/secrets/id_token_authentication/
https://kubernetes.io/docs/reference/access-authn-authz/authentication/#using-authentication-configuration
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from harness import paths
from harness.errors import BadInput
from harness.files import write_atomically, wrong_path
from harness.kube.client import Json
from harness.kube.in_cluster import ACCOUNT, config_of, in_cluster_config
from harness.urls import wrong_url

SERVER, CA, TOKEN = "MATRIX_API_SERVER", "MATRIX_API_CA", "MATRIX_ID_TOKEN"


def job_kubeconfig(run: str, environment: Mapping[str, str], *, service_account: Path = ACCOUNT) -> Path:
    """Write the kubeconfig of a run's job, for its user alone, and return its path; BadInput when it has no access."""
    with_token = bool(environment.get(SERVER))
    content = _with_id_token(environment) if with_token else in_cluster_config(environment, service_account)
    if content is None:
        raise BadInput(
            "the job has no access to the infra cluster",
            hint=f"{_withheld(environment)}set {SERVER} (and {CA}) and let that cluster trust GitLab's ID tokens, or "
            "run the job in that cluster with a service account: docs/gitlab.md",
        )
    path = _path(run)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(path, json.dumps(content, indent=2), mode=0o600)
    return path


def _withheld(environment: Mapping[str, str]) -> str:
    """Return why GitLab may have kept variables from a merge request's job; "" for other jobs.

    https://docs.gitlab.com/ci/pipelines/merge_request_pipelines/#use-with-forked-projects
    """
    if not environment.get("CI_MERGE_REQUEST_IID"):
        return ""
    source, target = (environment.get(f"CI_MERGE_REQUEST_{which}PROJECT_PATH", "") for which in ("SOURCE_", ""))
    if source != target:
        return (
            f"{source} is a fork, whose pipelines get no variables: a member of {target} must run the pipeline; else "
        )
    if environment.get("CI_COMMIT_REF_PROTECTED") != "true":
        return "merge requests do not get protected variables: remove the protection, if they have it; else "
    return ""


def without_authority(error: BadInput, environment: Mapping[str, str]) -> BadInput:
    """Return a refusal of the API's; where the job named no authority for its certificate, the hint says so."""
    if not environment.get(SERVER, "").startswith("https:") or environment.get(CA):
        return error
    unset = f"{CA} is not set: the certificate of {SERVER} must then be signed by an authority that this host trusts"
    return BadInput(error.summary, hint=f"{error.hint}; {unset}", paths=error.paths, detail=error.detail)


def forget(run: str) -> None:
    """Remove what `job_kubeconfig` wrote."""
    path = _path(run)
    path.unlink(missing_ok=True)
    if path.parent.is_dir() and not any(path.parent.iterdir()):
        path.parent.rmdir()


def _path(run: str) -> Path:
    return paths.state_dir() / "gitlab" / run / "kubeconfig"


def _with_id_token(environment: Mapping[str, str]) -> Json:
    if not environment.get(TOKEN):
        raise BadInput(
            f"{SERVER} is set, but {TOKEN} is not", hint=f"the job needs `id_tokens: {{{TOKEN}: {{aud: vmatrix}}}}`"
        )
    if wrong := wrong_url(environment[SERVER]):
        raise BadInput(f"{SERVER} {environment[SERVER]!r}: {wrong}", hint="it is the URL of the infra cluster's API")
    ca = environment.get(CA, "")
    if wrong := wrong_path(ca) if ca else "":
        raise BadInput(f"{CA}: {wrong}", hint="make it a CI/CD variable of type File")
    if ca and not os.path.isfile(ca):  # unlike Path.is_file, it takes a name of any length
        raise BadInput(f"{CA} names {ca}, which is not a file", hint="make it a CI/CD variable of type File")
    cluster = {"server": environment[SERVER], **({"certificate-authority": ca} if ca else {})}
    return config_of(cluster, {"token": environment[TOKEN]})

"""The variables that GitLab sets for a pipeline and for a job.

https://docs.gitlab.com/ci/variables/predefined_variables/
"""

from __future__ import annotations

import json
import re

from tests.gitlab.server.model import Pipeline, PipelineJob, Project
from tests.gitlab.server.reading import limit_of

VERSION = "18.2.0"  # of the GitLab that this server passes for


def slug(text: str) -> str:
    """Return a name as GitLab writes it in addresses."""
    return re.sub(r"[^a-z0-9]", "-", text.lower())[:63].strip("-")


def of_pipeline(pipeline: Pipeline, url: str) -> dict[str, str]:
    """Return what rules may ask for, and what every job of the pipeline has."""
    project, sha = pipeline.project, pipeline.sha
    found = {
        "CI": "true",
        "GITLAB_CI": "true",
        **_server(url),
        **_project(project, url),
        "CI_PIPELINE_ID": str(pipeline.id),
        "CI_PIPELINE_IID": str(pipeline.id),
        "CI_PIPELINE_SOURCE": pipeline.source,
        "CI_PIPELINE_URL": f"{url}/{project.path}/-/pipelines/{pipeline.id}",
        "CI_COMMIT_SHA": sha,
        "CI_COMMIT_SHORT_SHA": sha[:8],
        "CI_COMMIT_BEFORE_SHA": pipeline.base or "0" * 40,
        "CI_COMMIT_REF_NAME": pipeline.ref,
        "CI_COMMIT_REF_SLUG": slug(pipeline.ref),
        "CI_COMMIT_REF_PROTECTED": str(pipeline.ref == project.default_branch).lower(),
    }
    if not pipeline.merge_request:
        return {**found, "CI_COMMIT_BRANCH": pipeline.ref}
    return {
        **found,
        "CI_COMMIT_BEFORE_SHA": "0" * 40,
        "CI_MERGE_REQUEST_IID": pipeline.merge_request,
        "CI_MERGE_REQUEST_ID": str(1000 + int(pipeline.merge_request)),
        "CI_MERGE_REQUEST_PROJECT_ID": str(project.id),
        "CI_MERGE_REQUEST_PROJECT_PATH": project.path,
        "CI_MERGE_REQUEST_SOURCE_PROJECT_PATH": pipeline.fork or project.path,
        "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": pipeline.ref,
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": project.default_branch,
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": pipeline.base,
    }


def of_job(job: PipelineJob, url: str) -> dict[str, str]:
    """Return what GitLab says to a job about itself."""
    project = job.pipeline.project
    return {
        "CI_JOB_ID": str(job.id),
        "CI_JOB_NAME": job.name,
        "CI_JOB_NAME_SLUG": slug(job.name),
        "CI_JOB_STAGE": job.stage,
        "CI_JOB_URL": f"{url}/{project.path}/-/jobs/{job.id}",
        "CI_JOB_TIMEOUT": str(limit_of(job)),
        "CI_NODE_TOTAL": "1",
        **_runner(job),
        "GITLAB_USER_ID": "1",
        "GITLAB_USER_LOGIN": "person",
        "GITLAB_USER_NAME": "A Person",
        "GITLAB_USER_EMAIL": "person@example.org",
        "CI_REGISTRY_USER": "gitlab-ci-token",
    }


def _runner(job: PipelineJob) -> dict[str, str]:
    """Return what GitLab says of a job's runner; the runner itself adds its version."""
    if job.taken is None:
        return {}
    return {"CI_RUNNER_ID": str(job.taken.id), "CI_RUNNER_TAGS": json.dumps(sorted(job.taken.tags))}


def _server(url: str) -> dict[str, str]:
    scheme, _, rest = url.partition("://")
    host, _, port = rest.partition(":")
    return {
        "CI_SERVER": "yes",
        "CI_SERVER_URL": url,
        "CI_SERVER_HOST": host,
        "CI_SERVER_FQDN": rest,
        "CI_SERVER_PORT": port or ("443" if scheme == "https" else "80"),
        "CI_SERVER_PROTOCOL": scheme,
        "CI_SERVER_NAME": "GitLab",
        "CI_SERVER_VERSION": VERSION,
        "CI_API_V4_URL": f"{url}/api/v4",
    }


def _project(project: Project, url: str) -> dict[str, str]:
    namespace, _, name = project.path.rpartition("/")
    return {
        "CI_PROJECT_ID": str(project.id),
        "CI_PROJECT_NAME": name,
        "CI_PROJECT_PATH": project.path,
        "CI_PROJECT_PATH_SLUG": slug(project.path),
        "CI_PROJECT_NAMESPACE": namespace,
        "CI_PROJECT_ROOT_NAMESPACE": namespace.partition("/")[0],
        "CI_PROJECT_URL": f"{url}/{project.path}",
        "CI_DEFAULT_BRANCH": project.default_branch,
    }

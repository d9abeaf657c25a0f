"""A job as a runner gets it: the answer to `POST /api/v4/jobs/request`.

The fields are those that GitLab Runner 17.5 reads (common/network.go of its public repository).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.gitlab.checkout import flat
from tests.gitlab.server import predefined, tokens
from tests.gitlab.server.model import NotSpoken, PipelineJob, State, Variable
from tests.gitlab.server.order import before
from tests.gitlab.server.reading import limit_of

DEPTH = 20  # of a new project
REASONS = ["script_failure", "runner_system_failure", "job_execution_timeout", "image_pull_failure", "unknown_failure"]
PACKED = {"junit": "gzip", "annotations": "gzip", "codequality": "gzip", "dotenv": "gzip"}  # GitLab's file formats


@dataclass(frozen=True)
class Payload:
    """What is the same for all jobs: the server's address, and what it signs tokens with.

    token_seconds: how long a token lives in place of the job's timeout, to see tokens expire.
    issuer: of tokens, "" for this server.
    """

    url: str
    signing: tokens.Signs
    token_seconds: int | None = None
    issuer: str = ""

    def of(self, job: PipelineJob) -> dict[str, Any]:
        """Return the whole answer."""
        pipeline, definition = job.pipeline, job.definition
        limit = limit_of(job)
        image = definition.get("image")
        named = {"name": image} if isinstance(image, str) else image
        return {
            "id": job.id,
            "token": job.token,
            "allow_git_fetch": True,
            "job_info": {
                "id": job.id,
                "name": job.name,
                "stage": job.stage,
                "project_id": pipeline.project.id,
                "project_name": pipeline.project.path.rpartition("/")[2],
            },
            "git_info": self._git(job),
            "runner_info": {"timeout": limit},
            "variables": [_shown(variable) for variable in self.variables(job)],
            "steps": list(_steps(definition, limit)),
            **({"image": named} if named else {}),
            "services": [],
            "artifacts": list(_artifacts(job)),
            "cache": list(_caches(job)),
            "credentials": [],
            "dependencies": [_dependency(one) for one in _dependencies(job)],
            "features": {"trace_sections": True, "token_mask_prefixes": ["glpat-"], "failure_reasons": REASONS},
        }

    def variables(self, job: PipelineJob) -> Iterator[Variable]:
        """Yield a job's variables; later ones win."""
        pipeline = job.pipeline
        own = predefined.of_pipeline(pipeline, self.url) | predefined.of_job(job, self.url)
        yield from (Variable(name, value) for name, value in own.items())
        yield Variable("CI_JOB_TOKEN", job.token, masked=True)
        yield Variable("CI_REPOSITORY_URL", self._repository(job), masked=True)
        yield from (Variable(name, value) for name, value in job.variables.items())
        for one in _dependencies(job):
            yield from (Variable(name, value) for name, value in one.dotenv.items())
        guarded = pipeline.merge_request or pipeline.ref != pipeline.project.default_branch
        if not pipeline.fork:
            yield from (one for one in pipeline.project.variables if not (one.protected and guarded))
        yield from (Variable(name, value) for name, value in pipeline.variables.items())
        for name, wish in (job.definition.get("id_tokens") or {}).items():
            said = tokens.claims(job, self.issuer or self.url, wish["aud"], self.token_seconds)
            yield Variable(name, self.signing.token(said), masked=True)

    def _repository(self, job: PipelineJob) -> str:
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}://gitlab-ci-token:{job.token}@{rest}/{job.pipeline.project.path}.git"

    def _git(self, job: PipelineJob) -> dict[str, Any]:
        pipeline = job.pipeline
        depth = int(job.variables.get("GIT_DEPTH", DEPTH))
        own = f"+refs/pipelines/{pipeline.id}:refs/pipelines/{pipeline.id}"
        branch = f"+refs/heads/{pipeline.ref}:refs/remotes/origin/{pipeline.ref}"
        every = ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"]
        return {
            "repo_url": self._repository(job),
            "repo_object_format": "sha1",
            "ref": pipeline.ref,
            "sha": pipeline.sha,
            "before_sha": pipeline.base or "0" * 40,
            "ref_type": "branch",
            "refspecs": [own, *([branch] if depth else every)],
            "depth": depth,
        }


def _shown(variable: Variable) -> dict[str, Any]:
    hidden = variable.masked or variable.file
    return {
        "key": variable.key,
        "value": variable.value,
        "public": not hidden,
        "file": variable.file,
        "masked": variable.masked,
        "raw": False,
    }


def _steps(definition: Mapping[str, Any], limit: int) -> Iterator[dict[str, Any]]:
    script = flat(definition.get("before_script")) + flat(definition.get("script"))
    yield {"name": "script", "script": script, "timeout": limit, "when": "on_success", "allow_failure": False}
    if after := flat(definition.get("after_script")):
        yield {"name": "after_script", "script": after, "timeout": limit, "when": "always", "allow_failure": True}


def _artifacts(job: PipelineJob) -> Iterator[dict[str, Any]]:
    given = job.definition.get("artifacts") or {}
    common = {"when": given.get("when", "on_success"), "expire_in": given.get("expire_in")}
    paths = [*given.get("paths", []), *_pages(job)]
    if paths or given.get("untracked"):
        named = {key: given[key] for key in ("name", "exclude", "untracked") if key in given}
        yield {**common, **named, "paths": paths, "artifact_type": "archive", "artifact_format": "zip"}
    for kind, where in (given.get("reports") or {}).items():
        if kind not in PACKED:
            raise NotSpoken(f"{job.name}: artifacts: reports: {kind}")
        listed = [where] if isinstance(where, str) else list(where)
        packed = {"name": f"{kind}.xml" if kind == "junit" else kind, "paths": listed, "when": "always"}
        yield {**common, **packed, "artifact_type": kind, "artifact_format": PACKED[kind]}


def _pages(job: PipelineJob) -> list[str]:
    pages = job.definition.get("pages")
    return [str(pages["publish"])] if isinstance(pages, dict) and "publish" in pages else []


def _caches(job: PipelineJob) -> Iterator[dict[str, Any]]:
    pipeline = job.pipeline
    guarded = pipeline.ref == pipeline.project.default_branch and not pipeline.merge_request
    ending = "protected" if guarded else "non_protected"  # GitLab keeps caches of protected branches apart
    given = job.definition.get("cache") or []
    for one in [given] if isinstance(given, dict) else given:
        if not isinstance(one.get("key", "default"), str):
            raise NotSpoken("cache: key: files")
        usual = {"key": "default", "policy": "pull-push", "when": "on_success", "untracked": False, "fallback_keys": []}
        yield {**usual, **one, "key": f"{one.get('key', 'default')}-{ending}"}


def _dependencies(job: PipelineJob) -> list[PipelineJob]:
    """Return the jobs whose artifacts a job gets: those that it needs, or all of earlier stages."""
    found = [one for one in before(job) if one.state in (State.SUCCESS, State.FAILED)]
    if "dependencies" in job.definition:
        return [one for one in found if one.name in job.definition["dependencies"]]
    wants = {one["job"]: one.get("artifacts", True) for one in job.definition.get("needs", []) if isinstance(one, dict)}
    return [one for one in found if wants.get(one.name, True)]


def _dependency(job: PipelineJob) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": job.id, "name": job.name, "token": job.token}
    if "archive" in job.artifacts:
        name, content = job.artifacts["archive"]
        shown["artifacts_file"] = {"filename": name, "size": len(content)}
    return shown

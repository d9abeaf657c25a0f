"""Child pipelines: the file is in another job's artifacts, and is read as the parent's was."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping
from typing import Any

from tests.gitlab.checkout import Checkout
from tests.gitlab.server import predefined
from tests.gitlab.server.artifact_answers import unpacked
from tests.gitlab.server.forge import Forge
from tests.gitlab.server.model import NotSpoken, Pipeline, PipelineJob
from tests.gitlab.server.references import expanded

SOURCE = "parent_pipeline"
REASON = "downstream_pipeline_creation_failed"  # as GitLab calls it


async def begin_child(forge: Forge, job: PipelineJob) -> None:
    """Begin the child pipeline of a trigger job; the job fails, and its trace says why, when there is none."""
    try:
        content = _content(job)
        merged = await asyncio.to_thread(_merged, job, content)
        child = _child(forge, job, merged)
        await asyncio.to_thread(keep_commit, child)
        forge.began_child(job, child)
    except (NotSpoken, AssertionError) as why:
        job.trace += str(why).encode()
        forge.fail(job, REASON)


def _content(job: PipelineJob) -> bytes:
    trigger = job.definition["trigger"]
    includes = trigger.get("include")
    if not isinstance(includes, list) or len(includes) != 1 or set(includes[0]) != {"artifact", "job"}:
        raise NotSpoken(f"{job.name}: trigger: include that is not one artifact of a job")
    (maker,) = (one for one in job.pipeline.latest if one.name == includes[0]["job"])
    content = unpacked(maker).get(includes[0]["artifact"])
    if content is None:
        raise NotSpoken(f"{job.name}: job {maker.name} has no artifact {includes[0]['artifact']}")
    return content


def _merged(job: PipelineJob, content: bytes) -> Mapping[str, Any]:
    root = job.pipeline.root
    assert root is not None, "a pipeline without a checkout has no children"
    file = root / ".gitlab-ci-local" / f"child-of-{job.id}.yml"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    return Checkout(root).merged({"CI_PIPELINE_SOURCE": SOURCE}, "--file", str(file.relative_to(root)))


def keep_commit(pipeline: Pipeline) -> None:
    """Keep a pipeline's commit under a name of its own, which runners ask for."""
    argv = ["git", "-C", str(pipeline.project.bare), "update-ref", f"refs/pipelines/{pipeline.id}", pipeline.sha]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)


def _child(forge: Forge, job: PipelineJob, merged: Mapping[str, Any]) -> Pipeline:
    parent, forward = job.pipeline, job.definition["trigger"].get("forward", {})
    own = {**predefined.of_pipeline(parent, forge.url), **job.variables}
    passed = {name: expanded(value, own) for name, value in job.variables.items()}
    variables = {
        **(passed if forward.get("yaml_variables", True) else {}),
        **(parent.variables if forward.get("pipeline_variables", False) else {}),
    }
    return Pipeline(
        id=next(forge.numbers),
        project=parent.project,
        sha=parent.sha,
        ref=parent.ref,
        source=SOURCE,
        merged=merged,
        variables=variables,
        merge_request=parent.merge_request,
        fork=parent.fork,
        base=parent.base,
        parent=job,
        root=parent.root,
    )

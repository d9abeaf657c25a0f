"""What GitLab accepts of a pipeline, and what it takes without a word and drops: checked before anything is sent.

Works on a pipeline's plain data with includes and extends resolved. Does not replace GitLab's own lint, which also
knows the instance's settings. Numbers: docs.gitlab.com/ci/yaml (parallel:matrix, needs, job names),
docs.gitlab.com/ci/pipelines/downstream_pipelines (size of a generated file).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

PERMUTATIONS = 200
NEEDS = 50
NAME = 255
NEEDED_NAME = 128
FILE_BYTES = 5 * 10**6
PIPELINE_NAME = 255  # app/models/ci/pipeline_metadata.rb of GitLab
# Top-level keys that are no jobs.
GLOBAL = frozenset(
    ("after_script", "before_script", "cache", "default", "image", "include", "services", "spec", "stages", "variables")
) | {"workflow"}
MINUTES = re.compile(r"(\d+)\s*m(in(ute)?s?)?")
BUILT_IN_STAGES = (".pre", ".post")
BRACKETS = re.compile(r"[\[\]]|\d+\s*/\s*\d+\s*$")


def jobs(pipeline: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return a pipeline's jobs by name: no hidden ones."""
    return {n: j for n, j in pipeline.items() if n not in GLOBAL and not n.startswith(".") and isinstance(j, Mapping)}


def broken(pipeline: Mapping[str, Any], *, size: int = 0) -> list[str]:
    """Return one sentence per limit that a pipeline breaks; `size` is that of its file, in bytes."""
    found = jobs(pipeline)
    problems = [f"the file has {size} bytes; GitLab accepts {FILE_BYTES}"] if size > FILE_BYTES else []
    if not found:
        problems.append("the pipeline has no job; GitLab refuses an empty one")
    named = str((pipeline.get("workflow") or {}).get("name") or "")
    if len(named) > PIPELINE_NAME:
        problems.append(f"the pipeline's name has {len(named)} characters; GitLab accepts {PIPELINE_NAME}")
    problems += _names(found)
    stages = [*pipeline.get("stages", ()), *BUILT_IN_STAGES]
    for name, job in found.items():
        problems += (f"job {name!r}: {problem}" for problem in _job(job, found, stages))
    return problems


def permutations(job: Mapping[str, Any]) -> int:
    """Return how many jobs one becomes."""
    parallel = job.get("parallel", 1)
    if isinstance(parallel, int):
        return parallel
    return sum(prod(len(v) if isinstance(v, list) else 1 for v in entry.values()) for entry in parallel["matrix"])


def needed(job: Mapping[str, Any]) -> list[str]:
    """Return the names of the jobs of the same pipeline that a job needs."""
    entries = [entry if isinstance(entry, Mapping) else {"job": entry} for entry in job.get("needs") or []]
    return [str(entry["job"]) for entry in entries if "job" in entry and "pipeline" not in entry]


def _names(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for_others = {name for job in found.values() for name in needed(job)}
    for name in found:
        most = NEEDED_NAME if name in for_others else NAME
        if len(name) > most:
            yield f"job {name!r}: its name has {len(name)} characters; GitLab drops the pipeline from {most + 1} on"
        if BRACKETS.search(name):
            yield f"job {name!r}: the Tests tab would put it into one suite with others of the same beginning"
    for name, count in Counter(map(str.casefold, found)).items():
        if count > 1:
            yield f"job {name!r} exists {count} times, apart from capitals"


def _job(job: Mapping[str, Any], found: Mapping[str, Mapping[str, Any]], stages: list[str]) -> Iterator[str]:
    if permutations(job) > PERMUTATIONS:
        yield f"becomes {permutations(job)} jobs; GitLab accepts {PERMUTATIONS}"
    count = sum(permutations(found[name]) for name in needed(job) if name in found)
    if count > NEEDS:
        yield f"needs {count} jobs; GitLab accepts {NEEDS}: order by stages instead"
    for name in needed(job):
        if name not in found:
            yield f"needs {name!r}, which is not a job"
    if job.get("stage", "test") not in stages:
        yield f"its stage {job.get('stage', 'test')!r} is not in `stages`"
    if "resource_group" in job:
        yield "its resource_group makes cells wait for each other; admission already reserves room"
    yield from _times(job)


def _times(job: Mapping[str, Any]) -> Iterator[str]:
    variables = job.get("variables") or {}
    limits = [variables.get(f"RUNNER_{which}_TIMEOUT") for which in ("SCRIPT", "AFTER_SCRIPT")]
    if any(limit is None for limit in limits):
        return
    inner = sum(minutes(str(limit)) for limit in limits)
    if minutes(str(job.get("timeout", "60m"))) <= inner:
        yield f"its timeout ({job.get('timeout', '60m')}) is not longer than its script's and after_script's ({inner}m)"


def minutes(text: str) -> int:
    """Read a limit as these pipelines write it, in whole minutes; ValueError when it is written otherwise."""
    found = MINUTES.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a number of minutes such as 90m")
    return int(found[1])

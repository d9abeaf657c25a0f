"""The jobs of a pipeline, from its merged file and its variables, as GitLab makes them when the pipeline begins."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.gitlab import limits
from tests.gitlab.server.model import NotSpoken, PipelineJob
from tests.gitlab.server.rules import fitting

SPOKEN = {
    *("script", "before_script", "after_script", "stage", "variables", "rules", "needs", "dependencies", "artifacts"),
    *("cache", "image", "tags", "timeout", "retry", "interruptible", "resource_group", "id_tokens", "trigger", "when"),
    *("allow_failure", "environment", "pages", "inherit"),
}
SPOKEN_OF = {
    "artifacts": {"paths", "exclude", "when", "expire_in", "reports", "name", "untracked", "expose_as"},
    "cache": {"key", "paths", "policy", "when", "untracked", "fallback_keys"},
    "trigger": {"include", "strategy", "forward"},
    "retry": {"max", "when", "exit_codes"},
    "image": {"name", "entrypoint"},
}
WHEN = {"on_success", "on_failure", "always", "manual", "never"}
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
USUAL_TIMEOUT = 3600  # of a project


@dataclass(frozen=True)
class Planned:
    """A job that a pipeline has."""

    name: str
    definition: Mapping[str, Any]
    when: str
    interruptible: bool
    allow_failure: bool
    variables: Mapping[str, str]


def planned(merged: Mapping[str, Any], variables: Mapping[str, str]) -> list[Planned]:
    """Return the jobs that a pipeline with these variables has; NotSpoken for a keyword that this server ignores."""
    return list(_planned(merged, variables))


def on_new_commit(merged: Mapping[str, Any], variables: Mapping[str, str]) -> str | None:
    """Return which jobs a newer pipeline takes the place of; None when the workflow's rules forbid the pipeline."""
    rules = merged.get("workflow", {}).get("rules")
    if rules is None:
        return "conservative"
    rule = fitting(rules, {**merged.get("variables", {}), **variables})
    if rule is None or rule.get("when") == "never":
        return None
    return str(rule.get("auto_cancel", {}).get("on_new_commit", "conservative"))


def _planned(merged: Mapping[str, Any], variables: Mapping[str, str]) -> Iterator[Planned]:
    overall = {name: str(value) for name, value in merged.get("variables", {}).items()}
    for name, job in limits.jobs(merged).items():
        refuse_unspoken(name, job)
        own = {key: str(value) for key, value in (job.get("variables") or {}).items()}
        rule: Mapping[str, Any] | None = {}
        if "rules" in job:
            rule = fitting(job["rules"], {**overall, **own, **variables})
        when = (rule or {}).get("when", job.get("when", "on_success"))
        if rule is None or when == "never":
            continue
        if when not in WHEN:
            raise NotSpoken(f"{name}: when: {when}")
        allowed = rule.get("allow_failure", job.get("allow_failure", when == "manual" and "rules" not in job))
        if isinstance(allowed, dict):
            raise NotSpoken(f"{name}: allow_failure: exit_codes")
        given = {**overall, **own, **{key: str(value) for key, value in rule.get("variables", {}).items()}}
        cancellable = rule.get("interruptible", job.get("interruptible", False))
        yield Planned(name, job, str(when), bool(cancellable), bool(allowed), given)


def refuse_unspoken(name: str, job: Mapping[str, Any]) -> None:
    """Refuse a job with a keyword that changes something in GitLab, and nothing here."""
    unknown = set(job) - SPOKEN
    for key, spoken in SPOKEN_OF.items():
        parts = job.get(key) if isinstance(job.get(key), list) else [job.get(key)]
        unknown |= {f"{key}: {word}" for part in parts or [] if isinstance(part, dict) for word in set(part) - spoken}
    if unknown:
        raise NotSpoken(f"{name}: {', '.join(sorted(unknown))}")


def limit_of(job: PipelineJob) -> int:
    """Return how long a job may take, in seconds."""
    return seconds(job.definition["timeout"]) if "timeout" in job.definition else USUAL_TIMEOUT


def seconds(text: str) -> int:
    """Return a duration such as `90 minutes`, `1h 30m` or `2 weeks`, in seconds."""
    found = re.findall(r"(\d+)\s*([a-z]+)", str(text))
    if not found or any(unit[0] not in SECONDS for _, unit in found):
        raise NotSpoken(f"a duration such as {text}")
    return sum(int(number) * SECONDS[unit[0]] for number, unit in found)

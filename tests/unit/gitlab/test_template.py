"""The template's names: all of an inclusion's begin with its prefix, so that two inclusions share none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from harness.gitlab import child, limits
from harness.gitlab.child import Child
from harness.paths import project_dir
from harness.spec.settings import Settings
from tests.gitlab.server.rules import fitting
from tests.unit.gitlab.pipelines import TEMPLATE, cell_jobs, template, written

PREFIXES = ["ours-", "theirs-", "cells "]
# Keys whose strings are names that a project, a pipeline, a registry or a merge request has once.
NAMES = {
    *("needs", "dependencies", "extends", "resource_group", "expose_as", "environment", "on_stop"),
    *("artifact", "job", "publish", "path_prefix", "dotenv", "junit", "annotations", "codequality"),
}
# Of a cache: what a job fills is a folder of its own, and `key` says whose the cache is.
CACHED = {".cache/vmatrix/artifacts", ".cache/vmatrix/images"}
REPORTED = {"$DELIVERY_URL"}  # from a job's own dotenv report
NOT_PREFIXED = {"include", "stages", "variables"}  # stages are the including file's, and there are no variables
# What reaches jobs besides settings: jobs of GitLab, networks, caches, checkouts, runners.
OTHERS = {
    *("MATRIX_API_CA", "MATRIX_API_SERVER", "MATRIX_HISTORY_TOKEN", "MATRIX_NOTE_TOKEN", "MATRIX_ONLY"),
    *("MATRIX_ALERT_PASSWORD", "MATRIX_ISSUE_TOKEN", "MATRIX_NIGHT"),
    *("MATRIX_SCHEDULE", "MATRIX_WANT_TIER", "VMATRIX_DEBIAN_MIRROR"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    *("GIT_SSL_CAINFO", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "GOFLAGS", "GONOSUMDB", "GOPROXY", "GOSUMDB"),
    *("PIP_CACHE_DIR", "PIP_CERT", "PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL", "PIP_TRUSTED_HOST"),
    *("XDG_CACHE_HOME", "XDG_STATE_HOME", "CI_DEBUG_TRACE"),
    *(f"GIT_SUBMODULE_{word}" for word in ("DEPTH", "FORCE_HTTPS", "PATHS", "STRATEGY", "UPDATE_FLAGS")),
    *(f"KUBERNETES_{word}_OVERWRITE" for word in ("NAMESPACE", "SERVICE_ACCOUNT")),
}


def included(prefix: str) -> dict[str, Any]:
    """Return what an inclusion with a prefix adds to a pipeline, `extends` not resolved."""
    text = (project_dir() / TEMPLATE).read_text(encoding="utf-8").partition("\n---\n")[2]
    body: dict[str, Any] = yaml.safe_load(child.INTERPOLATION.sub(lambda _: prefix, text))
    return child.common(prefix) | body


def names(value: Any, key: str = "", within: str = "") -> Iterator[tuple[str, str]]:
    """Yield each name below a value, with the key that it is at."""
    if isinstance(value, Mapping):
        for inner, held in value.items():
            yield from names(held, str(inner), key)
    elif isinstance(value, list):
        for held in value:
            yield from names(held, key, within)
    elif key in NAMES or within in NAMES or (key in {"key", "paths"} and within in {"cache", "artifacts"}):
        yield key, str(value)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_every_name_of_an_inclusion_begins_with_its_prefix(prefix: str) -> None:
    checked = 0
    for name, job in included(prefix).items():
        if name in NOT_PREFIXED:
            continue
        assert name.removeprefix(".").startswith(prefix), name
        for key, value in names(job):
            checked += 1
            own = value.removeprefix(".") if key == "extends" else value
            assert own.startswith(prefix) or value in CACHED | REPORTED, (name, key, value)
    assert checked > 40


def test_two_inclusions_share_nothing() -> None:
    ours, theirs = (included(prefix) for prefix in PREFIXES[:2])
    assert ours["variables"] == {}
    assert set(ours) & set(theirs) == NOT_PREFIXED
    settings = [
        made[f".{prefix}vmatrix-settings"]["variables"]
        for made, prefix in zip((ours, theirs), PREFIXES[:2], strict=True)
    ]
    assert settings[0].keys() == settings[1].keys()


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("count", [0, 3])
def test_every_name_of_a_child_pipeline_begins_with_the_prefix(prefix: str, count: int) -> None:
    made = written(cell_jobs(count), Child("n", "image", "tag", "7", {"MATRIX_INFRA": "embedded"}, prefix=prefix))
    assert limits.broken(made) == []
    own = {name: job for name, job in made.items() if name not in limits.GLOBAL}
    assert own
    for name, job in own.items():
        assert name.removeprefix(".").startswith(prefix), name
        for key, value in names(job):
            if (key, value) in {("action", "access"), ("auto_stop_in", "4 hours")}:
                continue
            assert value.removeprefix(".").startswith(prefix) or value in CACHED, (name, key, value)
    for one in cell_jobs(count):
        assert made[prefix + one.cell]["variables"]["MATRIX_CELL"] == one.cell


@pytest.mark.parametrize("prefix", ["", *PREFIXES])
def test_the_input_takes_what_every_one_of_these_names_may_have(prefix: str) -> None:
    inputs, _ = template()
    assert re.search(inputs["prefix"]["regex"], prefix)


@pytest.mark.parametrize("prefix", ["-x", " ", "a/b", "a.b", "a:b", "ä", "x" * 31, "$X", "[1]", '"'])
def test_the_input_takes_nothing_else(prefix: str) -> None:
    inputs, _ = template()
    assert not re.search(inputs["prefix"]["regex"], prefix)


def _bases(made: Mapping[str, Any], name: str) -> list[str]:
    extends = made[name].get("extends", [])
    named = [extends] if isinstance(extends, str) else extends
    return [name, *(base for one in named for base in _bases(made, one))]


@pytest.mark.parametrize("prefix", ["", *PREFIXES])
def test_every_job_says_what_it_takes_of_the_including_file(prefix: str) -> None:
    made = included(prefix)
    jobs = limits.jobs({name: job for name, job in made.items() if name not in NOT_PREFIXED})
    assert len(jobs) == 8
    for name in jobs:
        inherit = [made[base]["inherit"] for base in _bases(made, name) if "inherit" in made[base]]
        assert [sorted(one) for one in inherit] == [["default", "variables"]], name
        assert inherit[0]["default"] == ["tags"], name
        assert len(inherit[0]["variables"]) == len(set(inherit[0]["variables"])), name
        settings = {f"VMATRIX_{field.upper()}" for field in Settings.model_fields}
        assert set(inherit[0]["variables"]) == settings - {"VMATRIX_RUNS"} | OTHERS, name


REQUEST = {"CI_MERGE_REQUEST_IID": "7"}
MAIN, BRANCH = {"CI_COMMIT_BRANCH": "main"}, {"CI_COMMIT_BRANCH": "feature"}
CELLS = {"plan", "smoke", "matrix", "report"}
# What starts a pipeline, its variables, and which jobs it has.
EVENTS: list[tuple[str, dict[str, str], set[str]]] = [
    ("merge_request_event", REQUEST, CELLS | {"checks"}),  # detached, merged_result, merge_train
    ("parent_pipeline", REQUEST, CELLS | {"checks"}),  # included in a child pipeline
    ("parent_pipeline", MAIN, CELLS | {"publish"}),
    ("push", MAIN, CELLS | {"publish"}),
    ("push", BRANCH, set()),
    ("push", {"CI_COMMIT_TAG": "v1"}, set()),
    ("web", BRANCH, set()),
    ("web", {"CI_COMMIT_TAG": "v1"}, set()),
    *((source, BRANCH | {"MATRIX_WANT_TIER": "single"}, CELLS) for source in ("web", "api", "trigger")),
    ("web", {"CI_COMMIT_TAG": "v1", "MATRIX_WANT_TIER": "single"}, CELLS),
    ("push", BRANCH | {"MATRIX_WANT_TIER": "single"}, set()),  # a variable of the project would double each pipeline
    ("schedule", MAIN | {"MATRIX_SCHEDULE": "reap"}, {"reap"}),
    ("schedule", BRANCH | {"MATRIX_SCHEDULE": "reap", "MATRIX_WANT_TIER": "single"}, {"reap"}),
    ("schedule", MAIN | {"MATRIX_SCHEDULE": "nightly"}, CELLS | {"publish"}),
    ("schedule", BRANCH | {"MATRIX_SCHEDULE": "nightly"}, CELLS | {"publish"}),
    ("schedule", MAIN, CELLS),  # whose plan says that it lacks a purpose
    ("pipeline", MAIN, CELLS | {"publish"}),
    ("external_pull_request_event", BRANCH, set()),
]


@pytest.mark.parametrize(("source", "variables", "expected"), EVENTS)
def test_what_starts_a_pipeline_decides_which_jobs_it_has(
    source: str, variables: dict[str, str], expected: set[str]
) -> None:
    text = (project_dir() / TEMPLATE).read_text(encoding="utf-8").partition("\n---\n")[2]
    for name, value in {"prefix": "", "pages": "true", "deliver": ""}.items():
        text = re.sub(rf"\$\[\[ inputs\.{name} ]]", value, text)
    made = child.common() | yaml.safe_load(text)
    given = {"CI_PIPELINE_SOURCE": source, "CI_DEFAULT_BRANCH": "main", **variables}
    listed = set()
    for name in limits.jobs({name: job for name, job in made.items() if name not in NOT_PREFIXED}):
        (rules,) = [made[base]["rules"] for base in _bases(made, name) if "rules" in made[base]]
        rule = fitting([{key: value for key, value in rule.items() if key != "changes"} for rule in rules], given)
        if rule is not None and rule.get("when") != "never":
            listed.add(name)
    assert listed == expected


@pytest.mark.parametrize("count", [0, 3])
def test_every_job_of_a_child_pipeline_takes_what_the_file_itself_says(count: int) -> None:
    made = written(cell_jobs(count), Child("n", "image", "tag", "", {"MATRIX_INFRA": "embedded"}))
    expected = {"default": list(child.DEFAULTS), "variables": ["MATRIX_INFRA"]}
    assert set(made["default"]) == set(child.DEFAULTS)
    for name in limits.jobs(made):
        inherit = [made[base]["inherit"] for base in _bases(made, name) if "inherit" in made[base]]
        assert inherit == [expected], name

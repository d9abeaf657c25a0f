"""What the runner and its jobs ask of the API, by its audit log: nothing beyond their roles."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from harness.infra.cluster import rights
from tests.embedded.rights.audit import Ask, granted
from tests.gitlab.deployed import DEPLOY, NAMESPACE_NAME, RUNNER_NAME
from tests.gitlab.pods_site import Site, gone
from tests.gitlab.server.model import State
from tests.gitlab.small import ended
from tests.gitlab.waiting_job import at_work, busy, text

pytestmark = pytest.mark.cells
RUNNER = f"system:serviceaccount:{NAMESPACE_NAME}:{RUNNER_NAME}"
JOB = f"system:serviceaccount:{NAMESPACE_NAME}:vmatrix-job"
PIPELINE = """
stages: [build, test]
make: {stage: build, tags: [vmatrix], script: ['echo made >made'], artifacts: {paths: [made]}}
use: {stage: test, tags: [vmatrix], script: ['cat made'], after_script: ['echo over']}
"""
# What the runner's role has for others than these jobs: with credentials of a registry, a job has a secret; later
# runners watch pods, and attach to them by WebSockets.
FOR_OTHERS = frozenset(
    Ask(verb, "", resource, NAMESPACE_NAME)
    for resource, verbs in {
        "secrets": ("create", "delete", "get", "update"),
        "serviceaccounts": ("get",),
        "pods": ("list", "watch"),
        "pods/attach": ("get",),
        "pods/exec": ("get",),
    }.items()
    for verb in verbs
)
OF_FAILED = frozenset({Ask("list", "", "events", NAMESPACE_NAME)})  # asked for when a job has failed
# What is asked for and is not needed: whether there is room, which networks are taken, what is there.
OPTIONAL = granted((*rights.SURVEY, *rights.LOOK)) | {Ask("get", "", "namespaces")}


def allowed(rules: list[dict[str, Any]]) -> frozenset[Ask]:
    """Return what a role allows."""
    return frozenset(
        Ask(verb, group, resource, NAMESPACE_NAME)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


def roles(path: str) -> frozenset[Ask]:
    texts = (DEPLOY / path).read_text(encoding="utf-8")
    found = [one for one in yaml.safe_load_all(texts) if one["kind"] == "Role"]
    return frozenset(ask for role in found for ask in allowed(role["rules"]))


def test_the_runner_asks_for_exactly_what_its_role_allows(site: Site) -> None:
    pipeline = site.begin(PIPELINE)
    assert ended(site.server, pipeline) == {"make": State.SUCCESS, "use": State.SUCCESS}
    cancelled = site.begin(text(busy()))
    at_work(site, cancelled)
    site.server.call(lambda forge: forge.cancel_all(cancelled))
    assert ended(site.server, cancelled) == {"work": State.CANCELED}
    gone(site)
    seen, role = site.there.log.of(RUNNER), roles("runner/role.yml")
    assert seen.forbidden == frozenset()
    assert sorted(seen.asked - role) == []
    assert sorted(role - seen.asked - OF_FAILED) == sorted(FOR_OTHERS)


def test_jobs_ask_for_nothing_beyond_their_role(site: Site) -> None:
    pipeline = site.begin("""
work:
  tags: [vmatrix]
  variables: {MATRIX_INFRA: kubevirt-offline, MATRIX_NAMESPACE: vmatrix-cells}
  script: ['touch vmatrix.yml', 'vmatrix gitlab reap']
""")
    assert ended(site.server, pipeline) == {"work": State.SUCCESS}, pipeline.jobs[0].said
    gone(site)
    role = roles("rbac/given-namespace/role.yml") | roles("rbac/given-namespace/snapshots.yml")
    seen = site.there.log.of(JOB)
    assert seen.asked, "jobs have asked for something"
    assert sorted(seen.asked - role - OPTIONAL) == []
    assert sorted(seen.forbidden - OPTIONAL) == []

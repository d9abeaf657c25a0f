"""The list of rights: complete for every controller, and one writer for each status."""

from __future__ import annotations

import pytest

from harness.infra.cluster.rights import Right, rules
from harness.kube.resources import CONFIG_MAP, JOB, PORT_FORWARD, SECRET
from harness.operator import rights
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, DELIVERY, MACHINE_SET
from harness.operator.execute.objects import rules_of
from harness.operator.registry import NAMES, PARTS
from tests.unit.operator.execute.operations import execution, host


def verbs(found: tuple[Right, ...]) -> dict[str, set[str]]:
    """Return the verbs of rights by what they are on."""
    total: dict[str, set[str]] = {}
    for right in found:
        total.setdefault(f"{right.resource.group}/{right.resource.plural}/{right.subresource}", set()).update(
            right.verbs
        )
    return total


def test_every_controller_has_its_rights_and_nobody_else() -> None:
    assert set(rights.OWN) == set(NAMES)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_what_a_controller_watches_it_may_list_and_watch(part: object) -> None:
    (found,) = [one for one in PARTS if one is part]
    allowed = verbs(rights.rights_of(found))
    for kind in found.watches:
        assert {"list", "watch"} <= allowed[f"{kind.group}/{kind.plural}/"]


@pytest.mark.parametrize(
    ("kind", "writers"),
    [
        (CLUSTER_DEPLOYMENT, {"clusterdeployment"}),
        (
            MACHINE_SET,
            {"machineset", "clusterdeployment", "etcdcluster"},
        ),  # the latter says of edits that it puts them back
        # Who begins an operation, who ends it, and who tells of what is in the guest, of times of a schedule, of CAs,
        # of networks, of the way to the API, and of the policy around machines.
        (
            CLUSTER,
            {
                *("clusterinstall", "executions", "addons", "backups", "authority", "networks", "endpoint"),
                *("isolation", "etcdclients"),
            },
        ),
        (DELIVERY, {"builds", "rollouts"}),
    ],
)
def test_a_status_has_its_writers_and_no_other(kind: object, writers: set[str]) -> None:
    found = {
        part.name
        for part in PARTS
        for right in rights.rights_of(part)
        if right.resource == kind and right.subresource == "status"
    }
    assert found == writers


def test_whoever_makes_executors_has_all_that_they_get() -> None:
    """The API refuses a role with more than its maker has."""
    made = execution(hosts=(host("m-0", through="instance"),))
    (install,) = [part for part in PARTS if part.name == "clusterinstall"]
    mine = verbs(rights.rights_of(install))
    wanted = rules_of(made)
    assert len(wanted) == 4
    for rule in wanted:
        (group,), (about,) = rule["apiGroups"], rule["resources"]
        kind, _, subresource = about.partition("/")
        assert set(rule["verbs"]) <= mine[f"{group}/{kind}/{subresource}"]
        assert rule["resourceNames"], "an executor's right is about named objects alone"
    given = [{**rule, "resourceNames": None} for rule in wanted]
    listed = [{**rule, "resourceNames": None} for rule in rules(rights.EXECUTOR)]
    assert sorted(map(str, given)) == sorted(map(str, listed))
    assert {right.resource for right in rights.EXECUTOR} == {SECRET, CONFIG_MAP, JOB, PORT_FORWARD}


def test_nobody_but_who_opens_machines_reads_secrets() -> None:
    readers = {
        part.name
        for part in PARTS
        for right in rights.rights_of(part)
        if right.resource == SECRET and {"get", "list", "watch"} & set(right.verbs)
    }
    assert readers == {
        *("machine", "nodehealth", "inspection", "infrastructure", "addons"),
        *("clusterinstall", "executions", "authority", "etcdclients", "users", "endpoint"),
        *("builds", "rollouts", "gitwebhooks"),  # of a repository, of a guest cluster, and of git servers
    }
    listers = [right for part in PARTS for right in rights.rights_of(part) if right.resource == SECRET]
    assert not [right for right in listers if {"list", "watch"} & set(right.verbs)]

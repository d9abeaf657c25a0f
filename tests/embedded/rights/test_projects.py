"""A job does nothing outside namespaces of a project that it may act for: by its roles, or else by policies."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from harness.cell.existing import CellSelector
from harness.cell.place import cell_labels
from harness.cell.provision import join_namespace
from harness.cell.teardown import reap
from harness.errors import Leaked
from harness.infra.cluster.rights import CELL_ROLE
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.resources import CLUSTER_ROLE, NAMESPACE, POD, ROLE_BINDING, SECRET, VM
from harness.model import LABEL_EXPIRES
from harness.until import Deadline, NotYet, until
from tests.embedded.rights.conftest import OTHER, PROJECT, Ground, Person

Names = Callable[[], str]


def labelled(project: int) -> dict[str, str]:
    return cell_labels(run="abc123", cell="c", attempt=1, expires_at=2e9, environment={"CI_PROJECT_ID": str(project)})


def namespace(name: str, labels: dict[str, str]) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def binding(where: str, role: str, user: str) -> Json:
    return {
        "apiVersion": ROLE_BINDING.api_version,
        "kind": "RoleBinding",
        "metadata": {"name": "grab", "namespace": where},
        "roleRef": {"apiGroup": ROLE_BINDING.group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": ROLE_BINDING.group, "kind": "User", "name": user}],
    }


@pytest.fixture(scope="module")
def mine(ground: Ground) -> Person:
    return ground.job(PROJECT, "platform/app")


@pytest.fixture(scope="module")
def theirs(ground: Ground) -> Iterator[str]:
    """Return a namespace of the other project, in which its job has its rights."""
    other = ground.job(OTHER, "platform/other")
    name = "vmatrix-of-the-other-project"
    other.cluster.create(NAMESPACE, namespace(name, labelled(OTHER)))
    join_namespace(other.cluster, name, labelled(OTHER), 20.0)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": name}}
    other.cluster.create(SECRET, secret)
    yield name
    other.cluster.delete(NAMESPACE, name)


def refused(work: Callable[[], object]) -> str:
    with pytest.raises(ApiFailure) as caught:
        work()
    assert caught.value.code == 403, caught.value
    return caught.value.message


def test_a_job_makes_a_namespace_works_in_it_and_takes_it_away(mine: Person, names: Names) -> None:
    name = names()
    mine.cluster.create(NAMESPACE, namespace(name, labelled(PROJECT)))
    assert "cannot list" in refused(lambda: mine.cluster.list(VM, name))
    join_namespace(mine.cluster, name, labelled(PROJECT), 20.0)
    assert mine.cluster.list(VM, name).items == []
    assert mine.cluster.delete(NAMESPACE, name)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (labelled(OTHER), "is of project 2002, for which gitlab:platform/app may not act"),
        ({}, "is of no project (label vmatrix.dev/project)"),
        ({**labelled(PROJECT), "vmatrix.dev/expires-at": "never"}, "without them nobody takes it away"),
        ({k: v for k, v in labelled(PROJECT).items() if k != "vmatrix.dev/run"}, "without them nobody takes it away"),
    ],
)
def test_a_job_makes_no_namespace_that_is_not_its_projects_or_does_not_expire(
    mine: Person, names: Names, labels: dict[str, str], said: str
) -> None:
    assert said in refused(lambda: mine.cluster.create(NAMESPACE, namespace(names(), labels)))


def test_a_job_does_nothing_in_another_projects_namespace(mine: Person, theirs: str) -> None:
    job = mine.cluster
    vm: Json = {"apiVersion": VM.api_version, "kind": VM.kind, "metadata": {"name": "m", "namespace": theirs}}
    assert "is of project 2002" in refused(lambda: job.delete(NAMESPACE, theirs))
    assert "is of project 2002" in refused(lambda: job.create(ROLE_BINDING, binding(theirs, CELL_ROLE, mine.user)))
    for work in (
        lambda: job.merge(NAMESPACE, theirs, {"metadata": {"labels": {"vmatrix.dev/project": str(PROJECT)}}}),
        lambda: job.get(SECRET, "s", theirs),
        lambda: job.list(SECRET, theirs),
        lambda: job.list(VM, theirs),
        lambda: job.delete(VM, "m", theirs),
        lambda: job.create(VM, {**vm, "spec": {}}),
        lambda: job.pod_log(theirs, "p", container="compute"),
        lambda: job.delete(POD, "p", theirs),
    ):
        assert "cannot" in refused(work)


def test_a_jobs_reaping_leaves_other_projects_alone_and_names_what_it_may_not_touch(
    ground: Ground, mine: Person, names: Names
) -> None:
    other = ground.job(OTHER, "platform/other")
    made = {}
    for job, project in ((mine, PROJECT), (other, OTHER)):
        made[project] = names()
        job.cluster.create(NAMESPACE, namespace(made[project], {**labelled(project), LABEL_EXPIRES: "1"}))
        join_namespace(job.cluster, made[project], labelled(project), 20.0)

    gone = reap(mine.cluster, CellSelector(only_expired=True, project=str(PROJECT)), seconds=60.0)
    with pytest.raises(Leaked, match=f"{made[OTHER]} could not be removed"):
        reap(mine.cluster, CellSelector(only_expired=True), seconds=60.0)

    assert [cell.namespace for cell in gone] == [made[PROJECT]]
    assert ground.admin.get(NAMESPACE, made[OTHER]) is not None
    reap(other.cluster, CellSelector(only_expired=True, project=str(OTHER)), seconds=60.0)


@pytest.mark.parametrize("name", ["kube-system", "default", "vmatrix-images", "vmatrix-schedule"])
def test_a_job_takes_no_namespace_of_nobodys_project_away(mine: Person, name: str) -> None:
    said = refused(lambda: mine.cluster.delete(NAMESPACE, name))
    assert "is of no project" in said or "this namespace may not be deleted" in said  # Kubernetes' own are its to keep
    assert "is of no project" in refused(lambda: mine.cluster.create(ROLE_BINDING, binding(name, CELL_ROLE, mine.user)))


@pytest.mark.parametrize("role", ["cluster-admin", "admin", "edit"])
def test_a_job_gives_itself_no_other_role(mine: Person, names: Names, role: str) -> None:
    name = names()
    mine.cluster.create(NAMESPACE, namespace(name, labelled(PROJECT)))
    said = refused(lambda: mine.cluster.create(ROLE_BINDING, binding(name, role, mine.user)))
    assert "attempting to grant RBAC permissions not currently held" in said
    mine.cluster.delete(NAMESPACE, name)


def test_the_owner_of_the_cluster_is_not_kept_from_anything(ground: Ground, names: Names) -> None:
    name = names()
    ground.admin.create(NAMESPACE, namespace(name, {}))
    ground.admin.create(ROLE_BINDING, binding(name, "view", "somebody"))
    ground.admin.merge(NAMESPACE, name, {"metadata": {"labels": {"vmatrix.dev/project": "5"}}})
    assert ground.admin.delete(NAMESPACE, name)


def without(cluster: Cluster, role: str, verb: str) -> Json:
    """Take the rule with a verb out of a ClusterRole; return the role as it was."""
    before = cluster.get(CLUSTER_ROLE, role)
    assert before is not None
    rules = [rule for rule in before["rules"] if verb not in rule["verbs"]]
    assert len(rules) == len(before["rules"]) - 1
    cluster.merge(CLUSTER_ROLE, role, {"rules": rules})
    return before


@pytest.fixture
def reduced(ground: Ground) -> Iterator[Callable[[str, str], None]]:
    """Return what takes a rule out of a role; it is put back at the end."""
    taken: list[Json] = []
    yield lambda role, verb: taken.append(without(ground.admin, role, verb))
    for role in taken:
        ground.admin.merge(CLUSTER_ROLE, role["metadata"]["name"], {"rules": role["rules"]})


def eventually(answer: Callable[[], bool], what: str) -> None:
    until(lambda: answer() or NotYet("not yet"), deadline=Deadline.after(10), what=what, interval=0.1)


def posts(job: Person, body: Json) -> int:
    resource = NAMESPACE if body["kind"] == "Namespace" else ROLE_BINDING
    path = resource.path(body["metadata"].get("namespace"))
    return job.cluster.send("POST", path, body=body, query={"dryRun": "All"}).code


def test_without_the_right_to_bind_a_job_cannot_join_its_namespace(
    mine: Person, names: Names, reduced: Callable[[str, str], None]
) -> None:
    name = names()
    mine.cluster.create(NAMESPACE, namespace(name, labelled(PROJECT)))
    body = binding(name, CELL_ROLE, mine.user)
    assert posts(mine, body) == 201
    reduced("vmatrix-jobs", "bind")
    eventually(lambda: posts(mine, body) == 403, "the binding is refused")
    mine.cluster.delete(NAMESPACE, name)


def test_without_the_right_to_run_jobs_the_policy_is_not_about_them(
    mine: Person, names: Names, reduced: Callable[[str, str], None]
) -> None:
    body = namespace(names(), labelled(OTHER))
    assert posts(mine, body) == 403
    reduced("vmatrix-jobs", "run")
    eventually(lambda: posts(mine, body) == 201, "the policy looks away")


def test_without_the_right_to_act_a_project_is_kept_out(
    ground: Ground, names: Names, reduced: Callable[[str, str], None]
) -> None:
    mine = ground.job(PROJECT, "platform/app")
    body = namespace(names(), labelled(PROJECT))
    assert posts(mine, body) == 201
    reduced(f"vmatrix-project-{PROJECT}", "act")
    eventually(lambda: posts(mine, body) == 403, "the project is kept out")

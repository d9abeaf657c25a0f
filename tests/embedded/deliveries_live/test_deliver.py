"""From a commit to an answer, on a real cluster: two applications, bad revisions, and what is taken away meanwhile."""

from __future__ import annotations

import time
from typing import Any

import pytest

from harness import proc
from harness.infra.host.program import DELIVERIES
from harness.kube.objects import dig
from harness.kube.resources import DEPLOYMENT, POD, SERVICE
from harness.until import NotYet
from tests.embedded.deliveries.git_servers import Repository
from tests.embedded.deliveries_live import applications
from tests.embedded.deliveries_live.world import World

SMALL, SNAKE, LARGE = "small", "snake", "large"
DISK_MIB = 256  # that a build may take, of which a small one takes half
AWAY_SECONDS = 20.0
RESTART_SECONDS = 400.0  # on a busy host


@pytest.fixture(scope="session")
def small(world: World) -> Repository:
    """Return the repository of a static binary, delivered over SSH."""
    made = Repository.create(world.servers, SMALL)
    made.commit(applications.static("first"))
    world.secret("small-git", world.servers.ssh_secret())
    world.deliver(SMALL, {"git": world.servers.ssh(SMALL), "branch": "main", "secretRef": {"name": "small-git"}}, {})
    return made


def delivered(world: World, name: str, repository: Repository, text: str) -> str:
    """Wait until the newest revision runs and answers; return it."""
    revision = repository.head()
    world.wait(f"{name} to run {revision[:12]}", lambda: world.ready(name, revision))
    world.wait(f"{name} to answer {text}", lambda: world.answers(name, text), 20.0)
    return revision


def image_of(world: World, name: str, revision: str) -> str:
    """Return the image that the registry has for a revision."""
    return f"{world.registry}/{name}@{world.digest(name, revision[:12])}"


def test_a_static_binary_goes_from_a_commit_to_an_answer(world: World, small: Repository) -> None:
    revision = delivered(world, SMALL, small, "first")
    seen = world.seen(SMALL)
    assert seen.status.image == image_of(world, SMALL, revision)
    assert world.running_image(SMALL) == {seen.status.image}


def test_the_next_commit_takes_its_place(world: World, small: Repository) -> None:
    delivered(world, SMALL, small, "first")
    small.commit(applications.static("second"))
    revision = delivered(world, SMALL, small, "second")
    assert world.running_image(SMALL) == {image_of(world, SMALL, revision)}
    (entry, *_) = world.seen(SMALL).status.history
    assert entry.committed is not None
    assert entry.pushed is not None


def test_python_with_a_wheel_is_built_upon_an_image_of_the_mirror(world: World) -> None:
    repository = Repository.create(world.servers, SNAKE)
    repository.commit(applications.python("python"))
    world.secret("snake-git", world.servers.https_secret())
    source = {"git": world.servers.https(SNAKE), "secretRef": {"name": "snake-git"}}
    world.deliver(SNAKE, source, {"args": {"BASE": world.image}})
    revision = delivered(world, SNAKE, repository, "python")
    assert world.seen(SNAKE).status.image == image_of(world, SNAKE, revision)


def test_of_five_commits_in_ten_seconds_the_last_one_runs(world: World, small: Repository) -> None:
    delivered(world, SMALL, small, small.tree.joinpath("answer.txt").read_text())
    before = {job["metadata"]["name"] for job in world.jobs(SMALL)}
    for number in range(5):
        small.commit(applications.static(f"five-{number}"))
        time.sleep(2.0)
    delivered(world, SMALL, small, "five-4")
    made = {job["metadata"]["name"] for job in world.jobs(SMALL)} - before
    assert 1 <= len(made) <= 3, made  # what was under way, and the last; one more where the first was very quick


def outcome(world: World, name: str, revision: str) -> Any:
    """Return what became of a revision, once it has ended."""

    def probe() -> Any:
        found = [one for one in world.seen(name).status.history if one.revision == revision and one.ended]
        return found[0] if found else NotYet(str(world.seen(name).status.history[:1]))

    return world.wait(f"the end of {revision[:12]}", probe)


def test_a_revision_that_does_not_build_leaves_the_old_one_answering(world: World, small: Repository) -> None:
    text = small.tree.joinpath("answer.txt").read_text()
    good = delivered(world, SMALL, small, text)
    broken = small.commit({"Dockerfile": applications.STATIC.replace("COPY answer /", "COPY none /").encode()})
    ended = outcome(world, SMALL, broken)
    assert (ended.outcome, ended.reason) == ("BuildFailed", "FileNotFound")
    assert ended.line.startswith("Dockerfile:2: COPY none")
    assert world.answer(SMALL) == text
    assert world.seen(SMALL).status.revision == good
    assert not world.digest(SMALL, broken[:12])


def test_a_revision_that_does_not_start_is_rolled_back(world: World, small: Repository) -> None:
    small.commit(applications.static("before"))
    good = delivered(world, SMALL, small, "before")
    bad = small.commit({"Dockerfile": applications.STATIC.replace('"/answer.txt"]', '"/none"]').encode()})
    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline:
        assert world.answer(SMALL) == "before"
        if [one for one in world.seen(SMALL).status.history if one.revision == bad and one.deployed]:
            break
        time.sleep(0.5)
    ended = outcome(world, SMALL, bad)
    assert ended.outcome == "RolledBack"
    assert world.answer(SMALL) == "before"
    assert world.seen(SMALL).status.revision == good


def test_what_is_deleted_or_edited_comes_back(world: World, small: Repository) -> None:
    small.commit(applications.static("stays"))
    delivered(world, SMALL, small, "stays")
    uid = world.api.get(SERVICE, SMALL, world.namespace)["metadata"]["uid"]  # type: ignore[index]
    world.api.delete(SERVICE, SMALL, world.namespace)

    def other() -> bool | NotYet:
        found = world.api.get(SERVICE, SMALL, world.namespace)
        return dig(found, "metadata", "uid") not in (None, uid) or NotYet("it is not there")

    world.wait("the Service to come back", other, 30.0)
    world.wait("it to answer", lambda: world.answers(SMALL, "stays"), 30.0)
    world.api.delete(DEPLOYMENT, SMALL, world.namespace)
    world.wait("the Deployment to come back", lambda: world.answers(SMALL, "stays"), 60.0)


def test_a_builder_that_is_killed_is_followed_by_another(world: World, small: Repository) -> None:
    small.commit(applications.static("killed"))
    revision = small.head()

    world.api.delete(POD, pod_that_builds(world, revision), world.namespace, grace=0)
    delivered(world, SMALL, small, "killed")
    assert world.digest(SMALL, revision[:12])


def test_a_registry_that_is_away_is_waited_for(world: World, small: Repository) -> None:
    service = proc.Service.load(world.infra.layout.pidfile(DELIVERIES))
    assert service is not None
    service.stop(grace=2.0)
    try:
        small.commit(applications.static("late"))
        time.sleep(AWAY_SECONDS)
        status, revision = world.seen(SMALL).status, small.head()
        assert status.requested is not None
        assert status.requested.revision == revision
        assert status.revision != revision
        assert not [entry for entry in status.history if entry.revision == revision and entry.pushed]
    finally:
        world.infra.host.start(world.infra.programs(world.index))
    delivered(world, SMALL, small, "late")


def pod_that_builds(world: World, revision: str) -> str:
    """Return the name of the pod that builds a revision, once its builder runs."""

    def begun() -> Any:
        for job in (one for one in world.jobs(SMALL) if one["metadata"]["name"].endswith(revision[:12])):
            for pod in world.api.list(POD, world.namespace, labels=f"job-name={job['metadata']['name']}").items:
                states = dig(pod, "status", "initContainerStatuses") or []
                if any(dig(one, "state", "running") for one in states):
                    return str(pod["metadata"]["name"])
        return NotYet("no builder runs")

    return str(world.wait(f"a pod that builds {revision[:12]}", begun))


def test_a_node_that_restarts_during_a_build_goes_on(world: World, small: Repository) -> None:
    small.commit(applications.static("restarted"))
    revision = small.head()
    pod_that_builds(world, revision)
    world.restart_node()
    world.wait(f"{revision[:12]} to run after the restart", lambda: world.ready(SMALL, revision), RESTART_SECONDS)
    delivered(world, SMALL, small, "restarted")
    assert len(world.deployments(SMALL)) == 1
    world.require_whole(SMALL)


def test_a_build_whose_disk_is_full_is_tried_again_and_the_next_revision_runs(world: World) -> None:
    repository = Repository.create(world.servers, LARGE)
    repository.commit(applications.static("room"))
    world.secret("large-git", world.servers.https_secret())
    source = {"git": world.servers.https(LARGE), "secretRef": {"name": "large-git"}}
    limits = {"limits": {"ephemeral-storage": f"{DISK_MIB}Mi"}}
    world.deliver(LARGE, source, {"resources": limits, "cache": "None", "args": {"BASE": world.image}})
    good = delivered(world, LARGE, repository, "room")
    files = applications.python("too large")
    files["Dockerfile"] = applications.PYTHON.replace("USER 65534:65534", "RUN sleep 240\nUSER 65534:65534").encode()
    large = repository.commit(files)  # the image that it is built upon is larger, and the kubelet looks each minute

    def full() -> Any:
        found = [
            one for one in world.seen(LARGE).status.history if one.revision == large and one.outcome == "BuildFailed"
        ]
        return found[0] if found else NotYet(str(world.seen(LARGE).status.history[:1]))

    ended = world.wait("the build to find its disk full", full, RESTART_SECONDS)
    assert (ended.reason, ended.transient) == ("Evicted", True)
    assert not world.digest(LARGE, large[:12])
    assert (world.seen(LARGE).status.revision, world.answer(LARGE)) == (good, "room")
    assert len(world.deployments(LARGE)) == 1
    repository.commit(applications.static("room again"))
    delivered(world, LARGE, repository, "room again")
    assert not world.digest(LARGE, large[:12])
    assert len(world.deployments(LARGE)) == 1
    world.require_whole(LARGE)

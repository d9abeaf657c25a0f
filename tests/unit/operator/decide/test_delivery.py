"""Which revision of a Delivery is built, which one runs, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.kube.objects import stamp
from harness.operator.api.delivery import DeliveredRevision, Delivery, DeliveryStatus
from harness.operator.decide.delivery import (
    MOST_ATTEMPTS,
    Build,
    BuildEnd,
    Follow,
    Reuse,
    RolloutState,
    Said,
    Wait,
    admitted,
    application_of,
    begun,
    build_conditions,
    building,
    built,
    forgotten,
    inputs_of,
    job_name,
    next_build,
    ready_said,
    reused,
    rolled,
    rolling,
    settings_of,
    to_run,
    waits_for_cluster,
    with_request,
    without_failures,
    written,
)
from tests.unit.operator.api.deliveries import IMAGE, delivery

Json = dict[str, Any]
NOW = datetime(2126, 1, 1, tzinfo=UTC)
A, B, C = (letter * 40 for letter in "abc")
WISH = Delivery.model_validate(delivery())


def image(revision: str) -> str:
    return f"{IMAGE}@sha256:{revision[:1] * 64}"


def entry(revision: str, outcome: str, **more: Any) -> DeliveredRevision:
    """Return an entry of the history of `WISH`."""
    has = outcome not in ("Building", "BuildFailed")
    own: Json = {"inputs": inputs_of(WISH), "settings": settings_of(WISH), "application": application_of(WISH)}
    own |= {"seen": stamp(NOW), "attempts": 1, "image": image(revision) if has else None}
    return DeliveredRevision.model_validate({"revision": revision, "outcome": outcome, **own, **more})


def known(newest: str | None, *history: DeliveredRevision, wish: Delivery = WISH, **status: Any) -> Delivery:
    """Return a Delivery whose repository has a newest revision."""
    state = DeliveryStatus(history=history, **status)
    state = with_request(state, newest, "poll", NOW) if newest else state
    return wish.model_copy(update={"status": state})


def with_spec(part: str, **fields: Any) -> Delivery:
    told: Json = {part: fields}
    return Delivery.model_validate(delivery(**told))


LATER = NOW + timedelta(hours=1)
# What a build decides, by a name: the Delivery, the step.
STEPS: dict[str, tuple[Delivery, Callable[[Any], bool]]] = {
    "nothing is known": (known(None), lambda one: one == Wait("NoRevision", "no revision is known yet")),
    "the first revision": (known(A), lambda one: isinstance(one, Build) and one.revision.revision == A),
    "a newer one": (known(B, entry(A, "Ready")), lambda one: isinstance(one, Build) and one.revision.revision == B),
    "a newer one while one is built": (
        known(B, entry(A, "Building")),
        lambda one: isinstance(one, Follow) and one.entry.revision == A,
    ),
    "what was built": (known(A, entry(A, "Built")), lambda one: isinstance(one, Wait) and one.reason == "Built"),
    "what was rolled back": (
        known(B, entry(B, "RolledBack"), entry(A, "Ready")),
        lambda one: isinstance(one, Wait) and one.reason == "Built",
    ),
    "what was built before another": (
        known(A, entry(B, "Ready"), entry(A, "Ready")),
        lambda one: isinstance(one, Reuse) and one.entry.revision == A,
    ),
    "what failed before another": (
        known(A, entry(B, "Ready"), entry(A, "BuildFailed", reason="DockerfileBroken", message="no")),
        lambda one: one == Wait("DockerfileBroken", "no"),
    ),
    "paused": (
        known(A, wish=Delivery.model_validate(delivery(paused=True))),
        lambda one: isinstance(one, Wait) and one.reason == "Paused",
    ),
    "paused while it is built": (
        known(A, entry(A, "Building"), wish=Delivery.model_validate(delivery(paused=True))),
        lambda one: isinstance(one, Follow),
    ),
    "a failure for good": (
        known(A, entry(A, "BuildFailed", reason="DockerfileBroken", message="line 3", ended=stamp(NOW))),
        lambda one: one == Wait("DockerfileBroken", "line 3"),
    ),
    "a failure that passes, at once": (
        known(A, entry(A, "BuildFailed", transient=True, ended=stamp(LATER - timedelta(seconds=4)))),
        lambda one: isinstance(one, Wait) and one.seconds == 6,
    ),
    "a failure that passes, later": (
        known(A, entry(A, "BuildFailed", transient=True, ended=stamp(NOW))),
        lambda one: isinstance(one, Build) and one.attempt == 2,
    ),
    "a failure that passes, too often": (
        known(A, entry(A, "BuildFailed", transient=True, ended=stamp(NOW), attempts=MOST_ATTEMPTS)),
        lambda one: isinstance(one, Wait) and one.seconds is None,
    ),
    "a failure before the spec was changed": (
        known(A, entry(A, "BuildFailed", settings="other")),
        lambda one: isinstance(one, Build) and one.attempt == 1,
    ),
    "an image of another Dockerfile": (
        known(A, entry(A, "Ready"), wish=with_spec("build", dockerfile="other")),
        lambda one: isinstance(one, Build),
    ),
    "an image with another time-out": (
        known(A, entry(A, "Ready"), wish=with_spec("build", timeoutSeconds=60)),
        lambda one: isinstance(one, Wait),
    ),
}


@pytest.mark.parametrize("case", STEPS)
def test_what_is_built_next(case: str) -> None:
    wish, fits = STEPS[case]
    step = next_build(wish, LATER)
    assert fits(step), step


# Fields of source and build: whether another value asks for another image, and whether it lets a failed build begin.
FIELDS = {
    ("source", "git"): ("https://other.example/x", False, True),
    ("source", "branch"): ("other", False, False),
    ("source", "tag"): ("v1", False, False),
    ("source", "revision"): (A, False, False),
    ("source", "subPath"): ("sub", True, True),
    ("source", "secretRef"): ({"name": "s"}, False, True),
    ("source", "pollSeconds"): (7, False, False),
    ("source", "webhook"): ({"provider": "GitHub", "secretRef": {"name": "a", "key": "b"}}, False, False),
    ("source", "submodules"): (True, True, True),
    ("build", "image"): ("registry.example/other", True, True),
    ("build", "dockerfile"): ("D", True, True),
    ("build", "buildpack"): ("None", False, False),
    ("build", "context"): ("sub", True, True),
    ("build", "args"): ({"A": "b"}, True, True),
    ("build", "target"): ("final", True, True),
    ("build", "insecure"): (True, False, True),
    ("build", "pushSecretRef"): ({"name": "s"}, False, True),
    ("build", "signingSecretRef"): ({"name": "s"}, False, True),
    ("build", "cache"): ("None", False, True),
    ("build", "platforms"): (["linux/arm64"], True, True),
    ("build", "timeoutSeconds"): (60, False, True),
    ("build", "resources"): ({"limits": {"memory": "1Gi"}}, False, True),
    ("build", "privileged"): (True, False, True),
}


def test_every_field_is_in_the_table() -> None:
    spec = WISH.spec
    every = {("source", field.alias) for field in type(spec.source).model_fields.values()}
    assert every | {("build", field.alias) for field in type(spec.build).model_fields.values()} == FIELDS.keys()


@pytest.mark.parametrize(("part", "field"), FIELDS)
def test_what_another_value_of_a_field_lets_be_built(part: str, field: str) -> None:
    value, image_differs, tried = FIELDS[part, field]
    wish = with_spec(part, **{field: value})
    assert (inputs_of(wish) != inputs_of(WISH), settings_of(wish) != settings_of(WISH)) == (image_differs, tried)


def test_builds_begin_where_fewest_are_and_then_in_the_order_of_waiting() -> None:
    waiting = [("1", ("a", "x")), ("2", ("a", "y")), ("3", ("b", "x")), ("0", ("a", "z"))]
    assert admitted(waiting, [], 1) == {("a", "z")}
    assert admitted(waiting, [], 2) == {("a", "z"), ("b", "x")}
    assert admitted(waiting, [("a", "w")], 2) == {("b", "x")}
    assert admitted(waiting, [("a", "w"), ("b", "w")], 2) == set()
    assert admitted(waiting, [], 9) == {key for _, key in waiting}


# What is to run, by a name: the history, the revision.
RUNS: dict[str, tuple[tuple[DeliveredRevision, ...], str | None]] = {
    "nothing yet": ((), None),
    "nothing built yet": ((entry(A, "Building"),), None),
    "the first": ((entry(A, "Built"),), A),
    "the newest": ((entry(B, "Built"), entry(A, "Ready")), B),
    "while one is built": ((entry(B, "Building"), entry(A, "Ready")), A),
    "what did not build": ((entry(B, "BuildFailed"), entry(A, "Ready")), A),
    "what was rolled back": ((entry(B, "RolledBack"), entry(A, "Ready")), A),
    "what was rolled back, as it is now": ((entry(B, "RolledBack", application="other"), entry(A, "Ready")), B),
    "what failed and stays": ((entry(B, "Failed"), entry(A, "Ready")), B),
    "what was superseded": ((entry(C, "Building"), entry(B, "Superseded"), entry(A, "Ready")), A),
    "what waits behind a rollout": ((entry(B, "Built"), entry(A, "Deploying")), B),
}


@pytest.mark.parametrize("case", RUNS)
def test_what_is_to_run(case: str) -> None:
    history, wanted = RUNS[case]
    found = to_run(known(None, *history))
    assert (found.revision if found is not None else None) == wanted


FAILED = RolloutState(failed="pod shop-x: CrashLoopBackOff", reason="CrashLoopBackOff")
# How a rollout goes on, by a name: history, the entry looked at, what is seen, outcomes after it, what runs.
ROLLS: dict[str, tuple[Delivery, str, RolloutState, list[str], str | None]] = {
    "not there yet": (known(A, entry(A, "Deploying")), A, RolloutState("0 of 1"), ["Deploying"], None),
    "there": (known(A, entry(A, "Deploying")), A, RolloutState(), ["Ready"], A),
    "the first fails": (known(A, entry(A, "Deploying")), A, FAILED, ["Failed"], None),
    "a later one fails": (
        known(B, entry(B, "Deploying"), entry(A, "Ready"), revision=A),
        B,
        FAILED,
        ["RolledBack", "Ready"],
        A,
    ),
    "a later one fails and stays": (
        known(
            B, entry(B, "Deploying"), entry(A, "Ready"), revision=A, wish=Delivery.model_validate(delivery(rollback=0))
        ),
        B,
        FAILED,
        ["Failed", "Ready"],
        A,
    ),
    "what was ready fails": (known(A, entry(A, "Ready"), revision=A), A, FAILED, ["Ready"], A),
    "what had failed comes up": (known(A, entry(A, "Failed")), A, RolloutState(), ["Ready"], A),
}


@pytest.mark.parametrize("case", ROLLS)
def test_how_a_rollout_goes_on(case: str) -> None:
    wish, revision, state, outcomes, runs = ROLLS[case]
    looked = next(one for one in wish.status.history if one.revision == revision)
    status = rolled(wish, looked, state, NOW + timedelta(seconds=9))
    assert [one.outcome for one in status.history] == outcomes
    assert status.revision == runs
    if outcomes[0] in ("RolledBack", "Failed") and state.failed and looked.outcome == "Deploying":
        assert (status.history[0].reason, status.history[0].message) == (FAILED.reason, FAILED.failed)
    if outcomes[0] != looked.outcome:
        assert status.history[0].seconds == 9


def test_a_rollout_ends_those_before_it_that_had_not_ended() -> None:
    wish = known(C, entry(C, "Built"), entry(B, "Deploying"), entry(A, "Ready"))
    assert [one.outcome for one in rolling(wish, wish.status.history[0], NOW).history] == [
        "Deploying",
        "Superseded",
        "Ready",
    ]


def test_a_build_keeps_what_it_came_to() -> None:
    wish = known(A)
    step = next_build(wish, NOW)
    assert isinstance(step, Build)
    status = begun(wish, step, NOW)
    assert status.history[0].job == job_name("shop", A) == f"shop-{'a' * 12}"
    end = BuildEnd(image=image(A), stage="Pushed", committed=stamp(NOW - timedelta(seconds=30)), log="shop-log")
    status = built(status, status.history[0], end, NOW)
    assert (status.history[0].outcome, status.history[0].image, status.repository) == ("Built", image(A), IMAGE)
    bad = BuildEnd(stage="Fetched", reason="DockerfileBroken", message="unknown instruction", line="3: FORM scratch")
    status = built(begun(wish, step, NOW), status.history[0], bad, NOW + timedelta(seconds=5))
    first = status.history[0]
    assert (first.outcome, first.reason, first.line, first.seconds) == (
        "BuildFailed",
        "DockerfileBroken",
        "3: FORM scratch",
        5,
    )


def test_the_history_has_a_length_and_never_loses_what_runs() -> None:
    wish = Delivery.model_validate(delivery(history=3))
    entries = [entry(letter * 40, "BuildFailed") for letter in "edc"] + [entry(A, "Ready")]
    wish = known("f" * 40, *entries, wish=wish, revision=A)
    step = next_build(wish, NOW)
    assert isinstance(step, Build)
    status = begun(wish, step, NOW)
    assert [one.revision[:1] for one in status.history] == ["f", "e", "a"]
    assert [one.revision[:1] for one in forgotten(wish.status, status)] == ["d", "c"]


@pytest.mark.parametrize("outcome", ["BuildFailed", "RolledBack", "Failed"])
def test_what_failed_is_tried_once_more_when_somebody_asks(outcome: str) -> None:
    wish = known(A, entry(A, outcome, ended=stamp(NOW), reason="Some", message="thing"))
    after = wish.model_copy(update={"status": without_failures(wish.status)})
    if outcome == "BuildFailed":
        assert isinstance(next_build(after, NOW), Build)
    else:
        assert after.status.history[0].outcome == "Built"
        assert after.status.history[0].reason is None


def test_what_works_is_left_alone_when_somebody_asks() -> None:
    for history in ((entry(A, "Ready"),), (entry(A, "Building"),), ()):
        wish = known(A, *history)
        assert without_failures(wish.status) == wish.status


META: Json = {"metadata": {"name": "one"}}
GUEST = {**META, "status": {"conditions": [{"type": "Ready", "status": "False", "message": "0/1 machines"}]}}
READY = {**META, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}


@pytest.mark.parametrize(
    ("deployment", "reason", "words"),
    [
        (None, "ClusterMissing", "no ClusterDeployment one"),
        (GUEST, "WaitingForCluster", "0/1 machines"),
        ({**READY, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "ClusterDeleting", "all that is in"),
    ],
)
def test_a_guest_that_is_not_ready_is_waited_for_by_name(deployment: Json | None, reason: str, words: str) -> None:
    told = waits_for_cluster("one", deployment)
    assert told is not None
    assert told.reason == reason
    assert words in told.message
    assert waits_for_cluster("one", READY) is None
    assert (waits_for_cluster("one", deployment, settled=True) is None) == (deployment is GUEST)


def said(wish: Delivery, deployed: tuple[bool, str] = (True, "Applied"), generation: int = 1) -> Json:
    """Return what the conditions say of a Delivery, by type: status and reason."""
    told: list[Said] = [("Accepted", True, "Valid", ""), ("Fetched", True, "Fetched", "")]
    told += [*build_conditions(wish, next_build(wish, LATER)), ("Deployed", *deployed, "words")]
    body = written(wish, wish.status, told, NOW)
    return {one["type"]: (one["status"], one["reason"]) for one in body["conditions"]}


# What is told, by a name: the Delivery, Deployed, and the wanted Built, Pushed and Ready.
TOLD: dict[str, tuple[Delivery, tuple[bool, str], str, str, str]] = {
    "queued": (known(A), (False, "NoImage"), "Queued", "Queued", "Queued"),
    "being built": (known(A, entry(A, "Building")), (False, "NoImage"), "Building", "Building", "Building"),
    "it does not build": (
        known(B, entry(B, "BuildFailed", reason="DockerfileBroken", message="no"), entry(A, "Ready"), revision=A),
        (True, "Applied"),
        "DockerfileBroken",
        "DockerfileBroken",
        "DockerfileBroken",
    ),
    "it is not taken by the registry": (
        known(A, entry(A, "BuildFailed", reason="PushRefused", message="no", stage="Built")),
        (False, "NoImage"),
        "True",
        "PushRefused",
        "PushRefused",
    ),
    "being deployed": (known(A, entry(A, "Deploying")), (False, "Deploying"), "True", "True", "Deploying"),
    "rolled back": (
        known(B, entry(B, "RolledBack"), entry(A, "Ready"), revision=A),
        (False, "RolledBack"),
        "True",
        "True",
        "RolledBack",
    ),
    "an older one runs": (known(B, entry(B, "Built"), revision=A), (True, "Applied"), "True", "True", "Deploying"),
    "it runs": (known(A, entry(A, "Ready"), revision=A), (True, "Applied"), "True", "True", "True"),
}


@pytest.mark.parametrize("case", TOLD)
def test_what_the_conditions_say(case: str) -> None:
    wish, deployed, *wanted = TOLD[case]
    told = said(wish, deployed)
    found = [told[kind] for kind in ("Built", "Pushed", "Ready")]
    assert ["True" if status == "True" else reason for status, reason in found] == wanted


BROKEN = {"reason": "DockerfileBroken", "message": "no"}
EDITED = with_spec("build", timeoutSeconds=61)
# Whether nothing goes on by itself, by a name: the Delivery, and the reason; "" where it is not stalled.
STALLED_SAID: dict[str, tuple[Delivery, str]] = {
    "nothing is known": (known(None), ""),
    "queued": (known(A), ""),
    "being built": (known(A, entry(A, "Building")), ""),
    "it does not build": (known(A, entry(A, "BuildFailed", **BROKEN)), "DockerfileBroken"),
    "it may build later": (known(A, entry(A, "BuildFailed", transient=True)), ""),
    "it was tried often enough": (known(A, entry(A, "BuildFailed", transient=True, attempts=8)), "BuildFailed"),
    "a newer commit": (known(B, entry(A, "BuildFailed", **BROKEN)), ""),
    "an edit that may let it build": (known(A, entry(A, "BuildFailed", **BROKEN), wish=EDITED), ""),
    "being deployed": (known(A, entry(A, "Deploying")), ""),
    "rolled back": (known(B, entry(B, "RolledBack"), entry(A, "Ready"), revision=A), "RolledBack"),
    "it does not run": (known(A, entry(A, "Failed", reason="NotReady")), "NotReady"),
    "an edit that may let it run": (known(A, entry(A, "RolledBack", application="other")), ""),
    "it runs": (known(A, entry(A, "Ready"), revision=A), ""),
}


@pytest.mark.parametrize("case", STALLED_SAID)
def test_nothing_is_tried_again_by_itself(case: str) -> None:
    wish, reason = STALLED_SAID[case]
    assert said(wish)["Stalled"] == (("True", reason) if reason else ("False", "Progressing"))


def test_a_failure_of_before_an_edit_does_not_stall_before_the_repository_is_asked() -> None:
    wish = known(B, entry(B, "RolledBack"), entry(A, "Ready"), revision=A)
    before = written(wish, wish.status, [("Fetched", True, "Fetched", "")], NOW)
    status = DeliveryStatus.model_validate(before)
    meta = wish.metadata.model_copy(update={"generation": wish.metadata.generation + 1})
    edit = wish.model_copy(update={"metadata": meta, "status": status})
    told = [("Deployed", True, "Applied", "")], [("Fetched", True, "Fetched", "")]
    said_of = [
        next(one for one in written(edit, status, each, NOW)["conditions"] if one["type"] == "Stalled") for each in told
    ]
    assert [one["status"] for one in said_of] == ["False", "True"]


def test_a_mistake_stalls() -> None:
    body = written(known(A), known(A).status, [("Accepted", False, "Invalid", "no")], NOW)
    (told,) = (one for one in body["conditions"] if one["type"] == "Stalled")
    assert (told["status"], told["reason"], told["message"]) == ("True", "Invalid", "no")


def test_a_failure_names_the_line() -> None:
    wish = known(
        A,
        entry(
            A,
            "BuildFailed",
            stage="Fetched",
            reason="DockerfileBroken",
            message="unknown instruction",
            line="3: FORM x",
        ),
    )
    assert build_conditions(wish, next_build(wish, LATER))[0] == (
        "Built",
        False,
        "DockerfileBroken",
        f"{'a' * 12}: unknown instruction: 3: FORM x",
    )


def test_an_edit_that_was_not_deployed_yet_is_not_ready() -> None:
    wish = known(A, entry(A, "Ready"), revision=A)
    body = written(wish, wish.status, [("Accepted", True, "V", ""), ("Deployed", True, "Applied", "")], NOW)
    edited = Delivery.model_validate({**delivery(), "status": body})
    edited = edited.model_copy(update={"metadata": edited.metadata.model_copy(update={"generation": 2})})
    told = build_conditions(edited, next_build(edited, NOW))
    after = written(edited, edited.status, [("Accepted", True, "V", ""), *told], NOW)
    ready = next(one for one in after["conditions"] if one["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "Deploying")
    assert ready_said(edited, [])[2] == "Observing"


def simulated(events: list[tuple[str, bool]]) -> Iterator[tuple[Delivery, list[str]]]:
    """Play what happens to a Delivery; yield it after each event, with the revisions that were built so far.

    Args:
        events: "push", "look", "build" (a build ends) and "roll" (a rollout ends), each with whether it goes well.
    """
    wish, builds, moment = known(None), list[str](), NOW
    pushed = 0

    def now(status: DeliveryStatus) -> Delivery:
        return wish.model_copy(update={"status": status})

    for kind, well in events:
        moment += timedelta(seconds=2)
        if kind == "push":
            pushed += 1
        elif kind == "look" and pushed:
            wish = now(with_request(wish.status, f"{pushed:040x}", "poll", moment))
        elif kind == "build" and (running := building(wish.status)) is not None:
            end = BuildEnd(image=f"{IMAGE}@sha256:{pushed:064x}") if well else BuildEnd(reason="DockerfileBroken")
            wish = now(built(wish.status, running, end, moment))
        step = next_build(wish, moment)
        if isinstance(step, Build):
            builds.append(step.revision.revision)
            wish = now(begun(wish, step, moment))
        elif isinstance(step, Reuse):
            wish = now(reused(wish, step.entry, moment))
        wanted = to_run(wish)
        if wanted is not None and wanted.outcome == "Built":
            wish = now(rolling(wish, wanted, moment))
        elif wanted is not None and kind == "roll":
            wish = now(rolled(wish, wanted, RolloutState() if well else FAILED, moment))
        yield wish, builds


END = [("look", True), ("build", True), ("build", True), ("roll", True), ("roll", True)]
EVENTS = st.lists(st.tuples(st.sampled_from(["push", "look", "build", "roll"]), st.booleans()), max_size=40)


@given(EVENTS)
def test_whatever_happens_no_revision_is_built_twice_and_no_two_at_a_time(events: list[tuple[str, bool]]) -> None:
    for wish, builds in simulated(events):
        assert len(builds) == len(set(builds))
        assert sum(one.outcome == "Building" for one in wish.status.history) <= 1
        assert sum(one.outcome == "Deploying" for one in wish.status.history) <= 1
        assert len({one.revision for one in wish.status.history}) == len(wish.status.history) <= WISH.spec.history


@given(EVENTS)
def test_whatever_happened_the_last_revision_runs_in_the_end(events: list[tuple[str, bool]]) -> None:
    pushes = sum(kind == "push" for kind, _ in events)
    *_, (wish, _) = simulated([*events, ("push", True), *END])
    assert wish.status.revision == f"{pushes + 1:040x}"


@given(EVENTS)
def test_a_revision_that_was_ready_runs_until_another_one_is(events: list[tuple[str, bool]]) -> None:
    ran = None
    for wish, _ in simulated(events):
        if ran is not None:
            assert wish.status.revision is not None
            assert any(one.revision == wish.status.revision for one in wish.status.history)
        ran = wish.status.revision or ran


def test_of_five_revisions_in_ten_seconds_the_last_runs_and_two_are_built() -> None:
    *_, (wish, builds) = simulated([("push", True), ("look", True)] * 5 + END)
    assert wish.status.revision == f"{5:040x}"
    assert builds == [f"{1:040x}", f"{5:040x}"]

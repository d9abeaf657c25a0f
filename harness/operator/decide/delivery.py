"""What happens to a Delivery next: which revision is built, which one runs, and what waits for what.

Everything follows from the status, where each revision has one entry, the latest first. At most one is built at a time.
Of those that are seen meanwhile, only the last one is built afterwards: nothing waits in a queue but the newest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from harness.kube.client import Json
from harness.kube.informer import Key
from harness.kube.manifests import digest_of
from harness.kube.objects import condition, deleting, is_condition, parse_time, stamp
from harness.operator.api.conditions import ACCEPTED, READY, new, with_conditions
from harness.operator.api.delivery import (
    BUILT,
    DEPLOYED,
    FETCHED,
    PUSHED,
    STALLED,
    DeliveredRevision,
    Delivery,
    DeliveryStatus,
    Outcome,
    RequestedRevision,
)

SHORT = 12  # digits of a revision that people read, and that names its Job
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 10.0, 300.0  # pacing of builds that failed for what may pass, doubled
MOST_ATTEMPTS = 8  # half an hour of them
FAILED: tuple[Outcome, ...] = ("BuildFailed", "RolledBack", "Failed")
# Of the spec: what changes no image, though it may let a build succeed that failed.
NOT_IN_IMAGE = {
    "source": ("git", "branch", "tag", "revision", "secretRef", "pollSeconds", "webhook"),
    "build": ("pushSecretRef", "signingSecretRef", "cache", "timeoutSeconds", "resources", "privileged", "insecure"),
}
# Of the spec: what no build depends on.
NOT_IN_BUILD = {"source": ("branch", "tag", "revision", "pollSeconds", "webhook"), "build": ()}


def short(revision: str) -> str:
    """Return the part of a revision that people read."""
    return revision[:SHORT]


def job_name(delivery: str, revision: str) -> str:
    """Return the name of the Job that builds a revision."""
    return f"{delivery}-{short(revision)}"


def _digest(delivery: Delivery, without: Mapping[str, tuple[str, ...]]) -> str:
    spec = delivery.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    parts = {part: {n: v for n, v in spec[part].items() if n not in without[part]} for part in ("source", "build")}
    return digest_of([parts])


def inputs_of(delivery: Delivery) -> str:
    """Return the digest of all that decides what is in an image besides the revision."""
    return _digest(delivery, NOT_IN_IMAGE)


def settings_of(delivery: Delivery) -> str:
    """Return the digest of all that decides how a build ends besides the revision."""
    return _digest(delivery, NOT_IN_BUILD)


@dataclass(frozen=True)
class Build:
    """Build a revision, which has no image yet. attempt: which try it is."""

    revision: RequestedRevision
    attempt: int = 1


@dataclass(frozen=True)
class Reuse:
    """Take the image that a revision has from an earlier time."""

    entry: DeliveredRevision


@dataclass(frozen=True)
class Follow:
    """Look how far a build is."""

    entry: DeliveredRevision


@dataclass(frozen=True)
class Wait:
    """Do nothing for now. seconds: after which to look again; None: until something changes."""

    reason: str
    message: str
    seconds: float | None = None


BuildStep = Build | Reuse | Follow | Wait


def entry_of(status: DeliveryStatus, revision: str) -> DeliveredRevision | None:
    """Return what became of a revision, None where nothing did."""
    return next((entry for entry in status.history if entry.revision == revision), None)


def building(status: DeliveryStatus) -> DeliveredRevision | None:
    """Return the revision that is being built."""
    return next((entry for entry in status.history if entry.outcome == "Building"), None)


def next_build(delivery: Delivery, moment: datetime) -> BuildStep:
    """Decide what to do about the newest revision: the first row of docs/operator/delivery.md that applies."""
    status = delivery.status
    if (running := building(status)) is not None:
        return Follow(running)
    if delivery.spec.paused:
        return Wait("Paused", "spec.paused is true")
    newest = status.requested
    if newest is None:
        return Wait("NoRevision", "no revision is known yet")
    known = entry_of(status, newest.revision)
    if known is None:
        return Build(newest)
    if known.image is not None:
        if known.inputs != inputs_of(delivery):
            return Build(newest)
        return Wait(BUILT, f"{short(known.revision)} is built") if known == status.history[0] else Reuse(known)
    return _after_failure(delivery, known, newest, moment)


def is_retried(failed: DeliveredRevision) -> bool:
    """Tell whether a build that failed is begun again without anybody's doing."""
    return failed.transient and failed.attempts < MOST_ATTEMPTS


def _after_failure(
    delivery: Delivery, failed: DeliveredRevision, newest: RequestedRevision, moment: datetime
) -> BuildStep:
    reason, message = failed.reason or "BuildFailed", failed.message or "the build failed"
    if failed.settings != settings_of(delivery):
        return Build(newest)
    if not is_retried(failed) or failed.ended is None:
        return Wait(reason, message)
    pause = timedelta(seconds=min(FIRST_RETRY_SECONDS * 2 ** (failed.attempts - 1), LAST_RETRY_SECONDS))
    left = (parse_time(failed.ended) + pause - moment).total_seconds()
    return Wait(reason, message, left) if left > 0 else Build(newest, failed.attempts + 1)


def admitted(waiting: Iterable[tuple[str, Key]], running: Collection[Key], limit: int) -> set[Key]:
    """Return the Deliveries that may begin a build now.

    Args:
        waiting: when the revision of each was seen, and its key.  running: those that are built.
        limit: how many are built at a time.

    Whoever builds least in its namespace comes first, then whoever waits longest.
    """
    by_namespace = Counter(namespace for namespace, _ in running)
    left, chosen = sorted(waiting), set[Key]()
    while left and len(running) + len(chosen) < limit:
        since, key = min(left, key=lambda waiting_build: (by_namespace[waiting_build[1][0]], waiting_build))
        left.remove((since, key))
        by_namespace[key[0]] += 1
        chosen.add(key)
    return chosen


def with_request(status: DeliveryStatus, revision: str, by: str, moment: datetime) -> DeliveryStatus:
    """Return the status once a revision was seen; the same where it is the one that is known."""
    if status.requested is not None and status.requested.revision == revision:
        return status
    return _changed(status, requested=RequestedRevision(revision=revision, by=by[:1024], seen=stamp(moment)))


def without_failures(status: DeliveryStatus) -> DeliveryStatus:
    """Return the status for which somebody asks to try what failed once more."""
    newest = status.requested.revision if status.requested is not None else None
    tried = entry_of(status, newest) if newest is not None else None
    if tried is None or tried.outcome not in FAILED:
        return status
    if tried.image is None:
        return _with_entry(status, tried, settings=None)
    return _with_entry(status, tried, outcome="Built", reason=None, message=None, ended=None, seconds=None)


def begun(delivery: Delivery, step: Build, moment: datetime) -> DeliveryStatus:
    """Return the status once a build has begun."""
    revision = step.revision
    entry = DeliveredRevision(
        revision=revision.revision,
        by=revision.by,
        seen=revision.seen,
        outcome="Building",
        inputs=inputs_of(delivery),
        settings=settings_of(delivery),
        job=job_name(delivery.metadata.name, revision.revision),
        attempts=step.attempt,
        started=stamp(moment),
    )
    return _first(delivery, entry)


def reused(delivery: Delivery, entry: DeliveredRevision, moment: datetime) -> DeliveryStatus:
    """Return the status once a revision of an earlier time is wanted again."""
    newest = delivery.status.requested
    told = {"by": newest.by, "seen": newest.seen} if newest is not None else {}
    rest = {"reason": None, "message": None, "deployed": None, "ended": None, "seconds": None}
    return _first(delivery, _copy(entry, outcome="Built", pushed=stamp(moment), **told, **rest))


def _first(delivery: Delivery, entry: DeliveredRevision) -> DeliveryStatus:
    """Return the status with an entry in front, and as many as are to be kept; what runs is always among them."""
    status = delivery.status
    others = [other for other in status.history if other.revision != entry.revision]
    most = delivery.spec.history - 1
    running = next((other for other in others if other.revision == status.revision), None)
    kept = others[:most] if running is None or running in others[:most] else [*others[: most - 1], running]
    return _changed(status, history=(entry, *kept))


def forgotten(before: DeliveryStatus, after: DeliveryStatus) -> list[DeliveredRevision]:
    """Return the entries that have no place in the history any more."""
    kept = {entry.revision for entry in after.history}
    return [entry for entry in before.history if entry.revision not in kept]


@dataclass(frozen=True)
class BuildEnd:
    """How a build ended.

    image: by digest, None where it failed.  transient: the same build may succeed later.  log: ConfigMap of its output.
    """

    image: str | None = None
    stage: str = ""
    reason: str = ""
    message: str = ""
    line: str = ""
    committed: str | None = None
    transient: bool = False
    log: str = ""


def built(status: DeliveryStatus, entry: DeliveredRevision, end: BuildEnd, moment: datetime) -> DeliveryStatus:
    """Return the status once a build has ended."""
    now = stamp(moment)
    told = {"stage": end.stage or None, "committed": end.committed, "log": end.log or None}
    if end.image is not None:
        repository = end.image.partition("@")[0]
        made = _with_entry(status, entry, outcome="Built", image=end.image, pushed=now, **told)
        return made if status.repository else _changed(made, repository=repository)
    why = {"reason": end.reason or "BuildFailed", "message": end.message[:4096], "line": end.line[:4096] or None}
    after = {"ended": now, "seconds": _since(entry, moment), "transient": end.transient}
    return _with_entry(status, entry, outcome="BuildFailed", **told, **why, **after)


def application_of(delivery: Delivery) -> str:
    """Return the digest of how an image is run."""
    return digest_of([delivery.spec.deploy.model_dump(mode="json")])


def progressed(status: DeliveryStatus, entry: DeliveredRevision, stage: str, why: tuple[str, str]) -> DeliveryStatus:
    """Return the status of a build that goes on; `why`: reason and words of what it waits for, or empty ones."""
    reason, message = why
    told = {"stage": stage or None, "reason": reason or None, "message": message[:4096] or None}
    return _with_entry(status, entry, **told)


def to_run(delivery: Delivery) -> DeliveredRevision | None:
    """Return the revision that is to run: the latest that has an image and was not rolled back, or not as it is now."""
    for entry in delivery.status.history:
        if entry.image is not None and entry.outcome in ("Built", "Deploying", "Ready", "Failed"):
            return entry
        if entry.outcome == "RolledBack" and entry.application != application_of(delivery):
            return entry
    return None


def last_ready(status: DeliveryStatus, other_than: str) -> DeliveredRevision | None:
    """Return the last revision that was ready, but for one."""
    return next((entry for entry in status.history if entry.outcome == "Ready" and entry.revision != other_than), None)


@dataclass(frozen=True)
class RolloutState:
    """What is seen of the objects of a revision in the target.

    waits: what is not there yet, "" once everything is.  failed: why it will not come, "" while it may.
    reason: of `waits` and `failed`, as one word.
    """

    waits: str = ""
    failed: str = ""
    reason: str = "Deploying"


def rolling(delivery: Delivery, entry: DeliveredRevision, moment: datetime) -> DeliveryStatus:
    """Return the status once a revision's rollout begins; others that had not come to their end never will."""
    status = delivery.status
    history = tuple(
        _copy(other, outcome="Superseded", ended=stamp(moment), seconds=_since(other, moment))
        if other.revision != entry.revision and other.outcome in ("Built", "Deploying")
        else other
        for other in status.history
    )
    begins = {"outcome": "Deploying", "deployed": stamp(moment), "application": application_of(delivery)}
    return _with_entry(_changed(status, history=history), entry, **begins, reason=None, message=None, ended=None)


def rolled(delivery: Delivery, entry: DeliveredRevision, state: RolloutState, moment: datetime) -> DeliveryStatus:
    """Return the status after a look at the rollout of a revision; it is the one that was to run."""
    status, now = delivery.status, stamp(moment)
    if not (state.waits or state.failed):
        runs = {"revision": entry.revision, "commit": short(entry.revision), "image": entry.image}
        if entry.outcome != "Ready":
            after = {"ended": now, "seconds": _since(entry, moment), "reason": None, "message": None}
            status = _with_entry(status, entry, outcome="Ready", **after)
        return _changed(status, **runs)
    if not state.failed or entry.outcome != "Deploying":
        return status
    back = delivery.spec.rollback and last_ready(status, entry.revision) is not None
    after = {"ended": now, "seconds": _since(entry, moment), "reason": state.reason, "message": state.failed[:4096]}
    return _with_entry(status, entry, outcome="RolledBack" if back else "Failed", **after)


def _since(entry: DeliveredRevision, moment: datetime) -> int | None:
    return round((moment - parse_time(entry.seen)).total_seconds()) if entry.seen else None


def _with_entry(status: DeliveryStatus, entry: DeliveredRevision, **update: Any) -> DeliveryStatus:
    history = tuple(_copy(other, **update) if other.revision == entry.revision else other for other in status.history)
    return _changed(status, history=history)


def _copy(entry: DeliveredRevision, **update: Any) -> DeliveredRevision:
    return entry.model_copy(update=update)


def _changed(status: DeliveryStatus, **update: Any) -> DeliveryStatus:
    return status.model_copy(update=update)


def lost(status: DeliveryStatus, entry: DeliveredRevision) -> DeliveryStatus:
    """Return the status once the target of a revision is gone with all that was in it: it is rolled out anew."""
    if entry.outcome == "Ready":
        status = _with_entry(status, entry, outcome="Deploying", ended=None, seconds=None)
    return _changed(status, revision=None, commit=None, image=None, url=None)


CLUSTER_MISSING, CLUSTER_GOES, UNREACHABLE = "ClusterMissing", "ClusterDeleting", "Unreachable"


def waits_for_cluster(name: str, deployment: Json | None, *, settled: bool = False) -> Wait | None:
    """Return why nothing can be deployed into a guest cluster.

    Args:
        deployment: its ClusterDeployment.  settled: what is there is looked after, also during an operation.
    """
    if deployment is None:
        return Wait(CLUSTER_MISSING, f"there is no ClusterDeployment {name} in this namespace: create it")
    if deleting(deployment):
        return Wait(CLUSTER_GOES, f"ClusterDeployment {name} is being deleted, and all that is in the cluster")
    if settled or is_condition(deployment, READY, "True"):
        return None
    told = condition(deployment, READY) or {}
    why = f": {told['message']}" if told.get("message") else ""
    return Wait("WaitingForCluster", f"ClusterDeployment {name} is not Ready{why}")


Said = tuple[str, bool | None, str, str]  # type, status, reason, message


def build_conditions(delivery: Delivery, step: BuildStep) -> list[Said]:
    """Return Built and Pushed of the newest revision, by what its build has come to or waits for.

    Fetched is among them where a build could not fetch what the repository was said to have.
    """
    newest = delivery.status.history[0] if delivery.status.history else None
    known = newest is not None and (
        delivery.status.requested is None or newest.revision == delivery.status.requested.revision
    )
    if newest is None or not known or isinstance(step, Build):
        reason, message = _waiting(step)
        return [(BUILT, False, reason, message), (PUSHED, False, reason, message)]
    name = short(newest.revision)
    if newest.image is not None:
        return [(BUILT, True, BUILT, f"{name} is built"), (PUSHED, True, PUSHED, f"{name} is {newest.image}")]
    if newest.outcome == "Building":
        reason, message = newest.reason or "Building", newest.message or f"Job {newest.job} builds {name}"
        return [(BUILT, newest.stage == BUILT, reason, message), (PUSHED, False, reason, message)]
    reason, message = newest.reason or "BuildFailed", _with_line(newest)
    lacks = [(FETCHED, False, reason, message)] if newest.stage is None else []
    return [*lacks, (BUILT, newest.stage == BUILT, reason, message), (PUSHED, False, reason, message)]


def _waiting(step: BuildStep) -> tuple[str, str]:
    if isinstance(step, Wait):
        return step.reason, step.message
    return "Queued", "the build begins once another one has ended"


def _with_line(entry: DeliveredRevision) -> str:
    line = f": {entry.line}" if entry.line else ""
    return f"{short(entry.revision)}: {entry.message}{line}"


def ready_said(delivery: Delivery, conditions: Sequence[Json]) -> Said:
    """Return condition Ready, which follows from the status and the other conditions."""
    status = delivery.status
    told = {reported["type"]: reported for reported in conditions}
    for kind in (ACCEPTED, *((FETCHED,) if status.requested is None else ()), BUILT, PUSHED, DEPLOYED):
        known_condition = told.get(kind) or {
            "status": "Unknown",
            "reason": "Observing",
            "message": "nobody has looked at it yet",
        }
        if known_condition["status"] != "True":
            return READY, False, known_condition["reason"], known_condition["message"]
    newest = status.requested.revision if status.requested is not None else ""
    if status.revision != newest or (told[DEPLOYED].get("observedGeneration") or 0) < delivery.metadata.generation:
        return READY, False, "Deploying", f"{short(newest)} is to be deployed"
    return READY, True, "Delivered", f"{short(newest)} runs"


def stalled_said(delivery: Delivery, conditions: Sequence[Json]) -> Said:
    """Return condition Stalled: whether nothing goes on until somebody does something, as kstatus has it.

    After an edit, nobody knows the newest revision before the repository was asked again.
    """
    told = {reported["type"]: reported for reported in conditions}
    accepted, fetched, newest = told.get(ACCEPTED, {}), told.get(FETCHED, {}), delivery.status.requested
    if accepted.get("status") == "False":
        return STALLED, True, accepted["reason"], accepted["message"]
    is_asked = (fetched.get("observedGeneration") or 0) >= delivery.metadata.generation
    failed = entry_of(delivery.status, newest.revision) if newest is not None and is_asked else None
    if failed is None or failed.outcome not in FAILED or _goes_on(delivery, failed):
        return STALLED, False, "Progressing", ""
    return STALLED, True, failed.reason or failed.outcome, _with_line(failed)


def _goes_on(delivery: Delivery, failed: DeliveredRevision) -> bool:
    """Tell whether what failed is tried again by itself: after a pause, or because of an edit."""
    if failed.outcome == "BuildFailed":
        return is_retried(failed) or failed.settings != settings_of(delivery)
    return failed.application != application_of(delivery)


def written(delivery: Delivery, status: DeliveryStatus, news: Iterable[Said], moment: datetime) -> Json:
    """Return a status as the API has it, with conditions set; Ready and Stalled follow from all of them."""
    generation = delivery.metadata.generation
    body: Json = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    last = {update[0]: update for update in news}  # a build knows more of Fetched than a look at the repository
    made = [new(kind, true, reason, message, moment, generation) for kind, true, reason, message in last.values()]
    conditions = with_conditions(body.get("conditions") or [], *made)
    after = delivery.model_copy(update={"status": status})
    for kind, true, reason, message in (ready_said(after, conditions), stalled_said(after, conditions)):
        conditions = with_conditions(conditions, new(kind, true, reason, message, moment, generation))
    body["conditions"] = conditions
    return {**body, "observedGeneration": generation}

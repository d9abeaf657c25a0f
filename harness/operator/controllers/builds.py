"""Builds: new commits are looked for, and the newest one is built in a Job, once.

A build stands in the status before there is a Job of it, and the Job has one name whoever makes it. So whatever is lost
or killed on the way, the next look goes on from the status, and there are never two builds of a Delivery.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime

from harness.errors import VmatrixError
from harness.kube.client import ApiFailure, Json
from harness.kube.informer import Key, key_of, labels_of
from harness.kube.manifests import digest_of
from harness.kube.objects import deleting, dig, owner_reference, parse_time
from harness.kube.reconcile import Controller, follow, follow_children
from harness.kube.resources import CONFIG_MAP, JOB, JOB_NAME_LABEL, POD, SECRET, Resource
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.conditions import ACCEPTED
from harness.operator.api.delivery import FETCHED, DeliveredRevision, Delivery, DeliveryStatus, read_delivery
from harness.operator.api.resources import (
    AUTHOR_ANNOTATION,
    DELIVERY,
    DELIVERY_GROUP,
    DELIVERY_LABEL,
    PUSHED_BY_ANNOTATION,
    RECONCILE_ANNOTATION,
    REVISION_LABEL,
)
from harness.operator.build.job import BuildSettings, build_objects, build_result
from harness.operator.build.remote import remote_revision
from harness.operator.context import OperatorContext
from harness.operator.controllers.cluster_view import final_pods, owned_by
from harness.operator.controllers.executions import has_ended
from harness.operator.controllers.secrets import SecretMissing, named_content
from harness.operator.decide.delivery import (
    Build,
    BuildEnd,
    BuildStep,
    Follow,
    Reuse,
    Said,
    Wait,
    admitted,
    begun,
    build_conditions,
    building,
    built,
    forgotten,
    next_build,
    progressed,
    reused,
    short,
    with_request,
    without_failures,
    written,
)
from harness.operator.execute.logs import FILE, containers_of, packed
from harness.operator.execute.objects import KEEPS_LABEL
from harness.until import grown

COMPONENT = "builds"
FETCH_SECONDS = 20.0  # of a git server, to answer what its newest revision is
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 5.0, 300.0  # pacing of looks at a git server that does not answer
SOON_SECONDS = 1.0  # pacing: while what is to go is still there
QUEUE_SECONDS = 2.0  # pacing: of builds that wait for others to end
FOLLOW_SECONDS = 30.0  # pacing: of a Job every change is heard; what only time tells is not
WORKERS = 4  # a git server that does not answer holds one for some seconds
KEPT_JOBS = 3  # of the latest revisions; the logs of all others that are in the history are kept without them
ATTEMPT_ANNOTATION = f"{DELIVERY_GROUP}/attempt"  # of a Job: which build of its revision it is


@dataclass(frozen=True)
class SourceLook:
    """The last look at a repository.

    about: digest of what was asked for.  at: when, by the monotonic clock.  said: condition Fetched.
    failures: how many in a row.
    """

    about: str
    at: float
    said: Said
    failures: int = 0

    def due_in(self, delivery: Delivery) -> float | None:
        """Return the seconds until the next look; None for never."""
        pause = float(delivery.spec.source.poll_seconds) or None
        if self.failures:
            retry = grown(FIRST_RETRY_SECONDS, self.failures, LAST_RETRY_SECONDS)
            pause = max(pause, retry) if pause is not None else retry
        return None if pause is None else max(self.at + pause - time.monotonic(), 0.0)


class Sources:
    """Asks git servers what the newest revisions are."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._looks: dict[Key, SourceLook] = {}

    def forget(self, key: Key) -> None:
        """Forget a Delivery that is gone."""
        self._looks.pop(key, None)

    def look(self, key: Key, delivery: Delivery, asked: str | None) -> tuple[DeliveryStatus, Said, float | None]:
        """Return the status with the newest revision, condition Fetched, and when to look next.

        Args:
            asked: value of the annotation by which somebody asks to look now, None where nobody does.
        """
        source, status, meta = delivery.spec.source, delivery.status, delivery.metadata
        now = datetime.now(UTC)
        if source.revision is not None:
            status = with_request(status, source.revision, meta.annotations.get(AUTHOR_ANNOTATION) or "spec", now)
            return status, (FETCHED, True, "Given", f"{short(source.revision)} is in spec.source.revision"), None
        about = digest_of([{"uid": meta.uid, **source.model_dump(mode="json")}])
        last = self._looks.get(key)
        if last is None or last.about != about or asked is not None or last.due_in(delivery) == 0.0:
            failures = last.failures if last is not None and last.about == about else 0
            author, _, request = meta.annotations.get(PUSHED_BY_ANNOTATION, "").rpartition(" ")
            by = "poll" if asked is None else author if request == asked else "annotation"
            last, revision = self._asked(delivery, about, failures)
            self._looks[key] = last
            if revision is not None:
                status = with_request(status, revision, by, now)
        return status, last.said, last.due_in(delivery)

    def _asked(self, delivery: Delivery, about: str, failures: int) -> tuple[SourceLook, str | None]:
        source = delivery.spec.source
        ref = source.tag or source.branch or "the default branch"
        begins = time.monotonic()
        try:
            credentials = self._credentials(delivery)
            revision = remote_revision(source, credentials, deadline=begins + FETCH_SECONDS)
        except VmatrixError as error:
            fetched = (FETCHED, False, getattr(error, "reason", "") or "Unreachable", error.with_hint)
            return SourceLook(about, time.monotonic(), fetched, failures + 1), None
        fetched = (FETCHED, True, FETCHED, f"{ref} of {source.git} is {short(revision)}")
        return SourceLook(about, time.monotonic(), fetched), revision

    def _credentials(self, delivery: Delivery) -> Mapping[str, bytes]:
        reference = delivery.spec.source.secret_ref
        if reference is None:
            return {}
        return named_content(self._cluster, reference.name, delivery.metadata.namespace)


class BuildJobs:
    """Makes the Jobs of builds, and tells what became of them."""

    def __init__(self, context: OperatorContext, settings: BuildSettings) -> None:
        self._cluster = context.cluster
        self._settings = settings
        self.jobs = context.informers.of(JOB, labels=DELIVERY_LABEL)
        self.pods = context.informers.of(POD, labels=DELIVERY_LABEL)

    def missing_secret(self, delivery: Delivery) -> Wait | None:
        """Return that a Secret is not there without which a build's pod would never start."""
        spec = delivery.spec
        for reference in (spec.source.secret_ref, spec.build.push_secret_ref, spec.build.signing_secret_ref):
            if reference and self._cluster.get(SECRET, reference.name, delivery.metadata.namespace) is None:
                return Wait(SecretMissing.reason, SecretMissing(reference.name).with_hint, FOLLOW_SECONDS)
        return None

    def follow(self, obj: Json, delivery: Delivery, entry: DeliveredRevision) -> tuple[DeliveryStatus, float]:
        """Return the status after a look at a build, and when to look next. What is missing of it is made."""
        namespace, attempt = delivery.metadata.namespace, f"{entry.settings}-{entry.started}"
        job = self.jobs.get(namespace, entry.job or "")
        if job is None:
            job = self._cluster.get(JOB, entry.job or "", namespace)
        if job is None or dig(job, "metadata", "annotations", ATTEMPT_ANNOTATION) != attempt:
            try:
                return delivery.status, self._make(obj, delivery, entry, attempt)
            except (ForeignObject, ApiFailure) as error:
                why = (error.reason or "NotCreated", error.with_hint)
                return progressed(delivery.status, entry, entry.stage or "", why), FOLLOW_SECONDS
        pods = [pod for pod in self.pods.list(namespace) if _of_job(pod, job)]
        if has_ended(job):
            pods = [pod for pod in final_pods(self._cluster, job, pods) if _of_job(pod, job)]
        result = build_result(job, pods)
        if result is None:
            return delivery.status, FOLLOW_SECONDS
        if result.outcome == "running":
            why = (result.reason, result.message)
            return progressed(delivery.status, entry, result.stage, why), FOLLOW_SECONDS
        end = BuildEnd(
            image=result.image if result.outcome == "succeeded" else None,
            stage=result.stage,
            reason=result.reason,
            message=result.message,
            line=result.line,
            committed=result.committed or None,
            transient=result.transient,
            log=self._keep_log(obj, entry, pods, helpers=result.outcome == "failed"),
        )
        return built(delivery.status, entry, end, datetime.now(UTC)), 0.0

    def _make(self, obj: Json, delivery: Delivery, entry: DeliveredRevision, attempt: str) -> float:
        """Make the objects of a build, once none of an earlier one is there; return when to look next.

        Raises:
            ForeignObject: something else has the name of one.  ApiFailure: the API refuses, for a quota for example.
        """
        for body in build_objects(delivery, entry.revision, self._settings):
            kind = _KINDS[body["kind"]]
            body["metadata"].setdefault("annotations", {})[ATTEMPT_ANNOTATION] = attempt
            if self._cluster.create_if_absent(kind, body):
                continue
            name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
            there = self._cluster.get(kind, name, namespace)
            if there is None or deleting(there):
                return SOON_SECONDS
            if not owned_by(there, obj):
                raise ForeignObject(kind.kind, name)
            if dig(there, "metadata", "annotations", ATTEMPT_ANNOTATION) != attempt:
                self._cluster.delete(kind, name, namespace, propagation="Foreground")
                return SOON_SECONDS
        return FOLLOW_SECONDS

    def _keep_log(self, obj: Json, entry: DeliveredRevision, pods: Sequence[Json], *, helpers: bool) -> str:
        """Keep what the containers of a build have written; return the ConfigMap's name, "" where there is nothing.

        Args:
            helpers: whether those count that run beside the others.
        """
        texts = []
        for pod in pods[:1]:
            namespace, name = key_of(pod)
            beside = [
                init_container["name"]
                for init_container in pod["spec"].get("initContainers") or ()
                if init_container.get("restartPolicy")
            ]
            for container in (*containers_of(pod["spec"]), *(beside if helpers else ())):
                try:
                    texts.append(self._cluster.pod_log(namespace, name, container=container))
                except ApiFailure:  # it never started, or its node is gone
                    continue
        if not any(texts):
            return ""
        labels = {DELIVERY_LABEL: obj["metadata"]["name"], REVISION_LABEL: short(entry.revision), KEEPS_LABEL: "log"}
        name, namespace = f"{entry.job}-log", obj["metadata"]["namespace"]
        content = {FILE: base64.b64encode(packed("".join(texts))).decode()}
        body = CONFIG_MAP.manifest(name, namespace, labels={**labels, LABEL_MANAGED: MANAGED_BY}, binaryData=content)
        body["metadata"]["ownerReferences"] = [owner_reference(obj, DELIVERY)]
        if not self._cluster.create_if_absent(CONFIG_MAP, body):
            self._cluster.merge(CONFIG_MAP, name, {"binaryData": content}, namespace)
        return name

    def tidy(self, namespace: str, before: DeliveryStatus, after: DeliveryStatus) -> None:
        """Delete Jobs of all but the latest revisions, and logs of those that are not in the history any more."""
        gone = forgotten(before, after)
        for entry in (*after.history[KEPT_JOBS:], *gone):
            if entry.job and self.jobs.get(namespace, entry.job) is not None:
                self._cluster.delete(JOB, entry.job, namespace)
                self._cluster.delete(CONFIG_MAP, entry.job, namespace)
        for entry in gone:
            if entry.log:
                self._cluster.delete(CONFIG_MAP, entry.log, namespace)


_KINDS: Mapping[str, Resource] = {kind.kind: kind for kind in (CONFIG_MAP, JOB, SECRET)}


class ForeignObject(VmatrixError):
    """An object of a build's name belongs to somebody else."""

    reason = "NameTaken"

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} {name} belongs to somebody else", hint="delete it, or rename the Delivery")


def _of_job(pod: Json, job: Json) -> bool:
    return labels_of(pod).get(JOB_NAME_LABEL) == job["metadata"]["name"] and owned_by(pod, job)


class Builds:
    """Builds the newest revisions of Deliveries."""

    def __init__(self, context: OperatorContext) -> None:
        options = context.options
        self._context = context
        self._deliveries = context.informers.of(DELIVERY)
        self._sources = Sources(context)
        settings = BuildSettings(
            image=options.executor_image,
            buildkit_image=options.buildkit_image,
            registries=options.registries,
            insecure_registries=options.insecure_registries,
            stretch=options.stretch,
            seccomp_profile=options.seccomp_profile,
        )
        self._jobs = BuildJobs(context, settings)
        self._limit = options.builds
        self._admission = threading.Lock()  # held until the status says that a build has begun
        self.controller = Controller("builds", self.reconcile, workers=WORKERS)
        follow(self._deliveries, self.controller.queue)
        follow_children(self._jobs.jobs, DELIVERY, self.controller.queue)
        self._jobs.pods.subscribe(self._pod_changed)

    def _pod_changed(self, _: str, pod: Json) -> None:
        self.controller.queue.add((key_of(pod)[0], labels_of(pod)[DELIVERY_LABEL]))

    def reconcile(self, key: Key) -> float | None:
        """Look at one Delivery."""
        obj = self._deliveries.get(*key)
        if obj is None or deleting(obj):
            self._sources.forget(key)
            return None  # Jobs and logs go with their owner
        delivery, mistakes = read_delivery(obj, creating=False)
        if delivery is None or mistakes:
            text = "; ".join(mistake.text for mistake in mistakes)
            known = delivery or Delivery.model_validate({**obj, "spec": _PLACEHOLDER})
            self._write(obj, known, known.status, [(ACCEPTED, False, "Invalid", text)])
            return None
        return self._advance(key, obj, delivery)

    def _advance(self, key: Key, obj: Json, delivery: Delivery) -> float | None:
        """Fetch, then do one thing about the newest revision."""
        conditions: list[Said] = [(ACCEPTED, True, "Valid", "the object can be worked with")]
        moment, pauses = datetime.now(UTC), list[float | None]()
        status = delivery.status
        if not delivery.spec.paused:
            asked = delivery.metadata.annotations.get(RECONCILE_ANNOTATION)
            news = asked if asked and asked != status.reconciled else None
            status, fetched, pause = self._sources.look(key, delivery, news)
            status = without_failures(status).model_copy(update={"reconciled": asked}) if news else status
            conditions.append(fetched)
            pauses.append(pause)
        current = delivery.model_copy(update={"status": status})
        step = next_build(current, moment)
        with self._admission if isinstance(step, Build) else nullcontext():
            step, status, pause = self._done(key, obj, current, step, moment)
            pauses.append(pause)
            current = current.model_copy(update={"status": status})
            self._write(obj, delivery, status, [*conditions, *build_conditions(current, step)])
        return min((seconds for seconds in pauses if seconds is not None), default=None)

    def _done(
        self, key: Key, obj: Json, delivery: Delivery, step: BuildStep, moment: datetime
    ) -> tuple[BuildStep, DeliveryStatus, float | None]:
        """Do what is decided; return what conditions tell of it, the status after it, and when to look next."""
        status = delivery.status
        match step:
            case Build():
                wait = self._jobs.missing_secret(delivery)
                if wait is not None:
                    return wait, status, wait.seconds
                if key not in admitted(self._waiting(key, delivery), self._running(key), self._limit):
                    return step, status, QUEUE_SECONDS
                return step, begun(delivery, step, moment), 0.0
            case Reuse():
                return step, reused(delivery, step.entry, moment), 0.0
            case Follow():
                return step, *self._jobs.follow(obj, delivery, step.entry)
            case Wait():
                return step, status, step.seconds

    def _waiting(self, key: Key, delivery: Delivery) -> list[tuple[str, Key]]:
        """Return the Deliveries whose newest revision waits for its build, with this one."""
        mine = delivery.status.requested
        waiting = [(mine.seen or "" if mine is not None else "", key)]
        for obj in self._deliveries.list():
            other = key_of(obj)
            if other != key and _is_queued(obj):
                waiting.append((dig(obj, "status", "requested", "seen") or "", other))
        return waiting

    def _running(self, key: Key) -> list[Key]:
        objects = (obj for obj in self._deliveries.list() if key_of(obj) != key)
        return [key_of(obj) for obj in objects if _is_building(obj)]

    def _write(self, obj: Json, delivery: Delivery, status: DeliveryStatus, conditions: Sequence[Said]) -> None:
        """Write what is told, if it is something else; then say what has ended, and tidy."""
        body = written(delivery, status, conditions, datetime.now(UTC))
        if body == (obj.get("status") or {}):
            return
        self._deliveries.replace_status(obj, body)
        before, namespace = building(delivery.status), obj["metadata"]["namespace"]
        after = next((entry for entry in status.history if before and entry.revision == before.revision), None)
        if after is not None and after.outcome != "Building":
            self._tell(obj, after)
        if status.history != delivery.status.history:
            self._jobs.tidy(namespace, delivery.status, status)

    def _tell(self, obj: Json, entry: DeliveredRevision) -> None:
        say, name = self._context.events, short(entry.revision)
        good = entry.outcome != "BuildFailed"
        end = entry.pushed if good else entry.ended
        lasted = (parse_time(end) - parse_time(entry.started)).total_seconds() if end and entry.started else None
        self._context.metrics.build_ended("succeeded" if good else entry.reason or "BuildFailed", lasted)
        if good:
            say.normal(obj, "Built", f"{name} is {entry.image}", component=COMPONENT)
        else:
            say.warning(obj, entry.reason or "BuildFailed", f"{name}: {entry.message}", component=COMPONENT)


def _is_building(obj: Json) -> bool:
    return any(entry.get("outcome") == "Building" for entry in dig(obj, "status", "history") or ())


def _is_queued(obj: Json) -> bool:
    conditions = dig(obj, "status", "conditions") or ()
    return any(
        built_condition["type"] == "Built" and built_condition["reason"] == "Queued" for built_condition in conditions
    )


# Of an object that has another form: only its status is written, and nothing of its spec counts.
_PLACEHOLDER = {"source": {"git": "https://git.invalid/none"}, "build": {"image": "registry.invalid/none"}}


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(Builds(context).controller)

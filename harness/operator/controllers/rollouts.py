"""Rollouts: the revision that is to run is applied in its target, waited for, and put back where somebody changes it.

What was ready keeps running until the next revision is: a Deployment never has fewer pods than it is to have, and one
whose pods do not become ready in time gets the last good image back.

What is in a guest cluster is looked after also while an operation of it goes on; a new revision waits until it is
Ready. A guest that does not answer changes nothing that was said for a while, then nobody knows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple

from harness.errors import VmatrixError
from harness.kube.applyset import ApplySet, ApplySetLook, ApplySetParent, Known
from harness.kube.client import ApiFailure, Cluster, Json, allowed
from harness.kube.informer import Key, key_of, labels_of
from harness.kube.objects import deleting, dig, parse_time
from harness.kube.reconcile import Controller, follow
from harness.kube.resources import DEPLOYMENT, INGRESS, NAMESPACE, POD, SERVICE
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.delivery import DEPLOYED, DeliveredRevision, Delivery, DeliveryStatus, read_delivery
from harness.operator.api.resources import (
    APPLICATION_FINALIZER,
    CLUSTER_DEPLOYMENT,
    DELIVERY,
    DELIVERY_LABEL,
    DELIVERY_NAMESPACE_LABEL,
)
from harness.operator.build.signature import verify
from harness.operator.context import OperatorContext
from harness.operator.controllers.addons import TOOLING
from harness.operator.controllers.guest import GuestAccess, NoKubeconfig
from harness.operator.controllers.secrets import named_content
from harness.operator.decide.application import (
    PULL_KEY,
    PULL_SECRET_TYPE,
    application_kinds,
    application_objects,
    at_home,
    is_scaled,
    left_to_autoscaler,
    owner_of,
    rollout_state,
    selector,
    target_namespace,
    url_of,
)
from harness.operator.decide.delivery import (
    CLUSTER_MISSING,
    UNREACHABLE,
    RolloutState,
    Said,
    entry_of,
    lost,
    rolled,
    rolling,
    short,
    to_run,
    waits_for_cluster,
    written,
)

COMPONENT = "rollouts"
GUEST_SECONDS = 10.0  # pacing: of a guest nothing is heard; what is deleted by hand is put back within it
HOME_SECONDS = 60.0  # pacing: of what lies in the cluster of the Delivery, every change is heard at once
SILENT_SECONDS = 120.0  # for which what was said of a guest that does not answer stays: longer than API servers restart
SOON_SECONDS = 2.0  # pacing: while a rollout goes on
WORKERS = 4  # a guest that does not answer holds one for some seconds
VERIFY_SECONDS = 30.0  # of the registry, to hand out a signature
KINDS = (DEPLOYMENT, SERVICE, INGRESS)


class Looked(NamedTuple):
    """What a look has come to: the status after it, condition Deployed, and when to look next."""

    status: DeliveryStatus
    said: Said
    seconds: float | None


class NotDeployable(VmatrixError):
    """Nothing can be applied now. reason: as one word."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Targets:
    """Opens what a Delivery is deployed into."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._access = GuestAccess(context)
        self.deployments = context.informers.of(CLUSTER_DEPLOYMENT)

    @contextmanager
    def open(self, delivery: Delivery, *, settled: bool) -> Iterator[Cluster]:
        """Give a client of the target. Raises NotDeployable: it is not ready, or not to be used.

        settled: nothing new is deployed, so that a guest cluster need not be Ready.
        """
        name, namespace = delivery.spec.deploy.cluster, delivery.metadata.namespace
        if not name:
            self._permitted(delivery)
            yield self._cluster
            return
        wait = waits_for_cluster(name, self.deployments.get(namespace, name), settled=settled)
        if wait is not None:
            raise NotDeployable(wait.reason, wait.message)
        with self._guest((namespace, name)) as guest:
            yield guest

    @contextmanager
    def _guest(self, key: Key) -> Iterator[Cluster]:
        try:
            with self._access.open(key) as guest:
                yield guest
        except NoKubeconfig as error:
            raise NotDeployable("WaitingForCluster", error.with_hint) from error

    def last(self, delivery: Delivery) -> bool:
        """Tell whether the target is gone for good, and all that is in it."""
        name = delivery.spec.deploy.cluster
        if not name:
            return False
        deployment = self.deployments.get(delivery.metadata.namespace, name)
        return deployment is None or deleting(deployment)

    def _permitted(self, delivery: Delivery) -> None:
        """Refuse a namespace that does not let those of the Delivery's in, whoever has written it."""
        mine, target = delivery.metadata.namespace, target_namespace(delivery)
        if mine == target:
            return
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{mine}"]
        for kind in application_kinds(delivery):
            asked = {"group": kind.group, "resource": kind.plural, "verb": "create", "namespace": target}
            if not allowed(self._cluster, {"groups": groups}, asked)[0]:
                raise NotDeployable(
                    "NotPermitted",
                    f"namespace {target} does not let Deliveries of namespace {mine} in: bind a Role that may create "
                    f"{kind.plural} to the group {groups[1]} there",
                )


class Rollouts:
    """Keeps applications as Deliveries want them."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context
        self._cluster = context.cluster
        self._deliveries = context.informers.of(DELIVERY)
        self._targets = Targets(context)
        self._known: dict[Key, Known] = {}
        self._silent: dict[Key, float] = {}  # since when targets do not answer
        self._verified: set[str] = set()
        self.controller = Controller("rollouts", self.reconcile, workers=WORKERS)
        follow(self._deliveries, self.controller.queue)
        for kind in KINDS:
            context.informers.of(kind, labels=DELIVERY_LABEL).subscribe(self._changed)
        self._targets.deployments.subscribe(self._cluster_changed)

    def _changed(self, _: str, obj: Json) -> None:
        """Have the Delivery of an object looked at."""
        labels = labels_of(obj)
        self.controller.queue.add((labels.get(DELIVERY_NAMESPACE_LABEL, ""), labels[DELIVERY_LABEL]))

    def _cluster_changed(self, _: str, deployment: Json) -> None:
        namespace, name = key_of(deployment)
        for obj in self._deliveries.list(namespace):
            if dig(obj, "spec", "deploy", "cluster") == name:
                self.controller.queue.add(key_of(obj))

    def reconcile(self, key: Key) -> float | None:
        """Look at one Delivery."""
        obj = self._deliveries.get(*key)
        if obj is None:
            self._known.pop(key, None)
            self._silent.pop(key, None)
            return None
        delivery, mistakes = read_delivery(obj, creating=False)
        if delivery is not None and deleting(obj):
            return self._remove(obj, delivery)
        if delivery is None or mistakes or delivery.spec.paused:
            return None
        if not at_home(delivery) and APPLICATION_FINALIZER not in (obj["metadata"].get("finalizers") or ()):
            finalizers = [*(obj["metadata"].get("finalizers") or ()), APPLICATION_FINALIZER]
            self._deliveries.merge(obj, {"metadata": {"finalizers": finalizers}})
            return 0.0
        entry = to_run(delivery)
        if entry is not None and (entry.outcome in ("Built", "RolledBack")):
            begun = rolling(delivery, entry, datetime.now(UTC))
            self._write(obj, delivery, begun, (DEPLOYED, False, "Deploying", f"{short(entry.revision)} is deployed"))
            return 0.0
        looked = self._look(delivery, entry)
        self._write(obj, delivery, looked.status, looked.said)
        return looked.seconds

    def _look(self, delivery: Delivery, entry: DeliveredRevision | None) -> Looked:
        """Bring the application up to date, and tell how it is."""
        if entry is None:
            return Looked(delivery.status, (DEPLOYED, False, "NoImage", "no revision has an image yet"), None)
        try:
            pulls = self._pull_secret(delivery)
            with self._targets.open(delivery, settled=entry.outcome == "Ready") as target:
                self._verify(delivery, entry)
                look = self._apply(target, delivery, entry, pulls)
                state = self._state(target, delivery, entry, look)
        except VmatrixError as error:
            return self._not_seen(delivery, entry, error)
        self._silent.pop(_key(delivery), None)
        after = rolled(delivery, entry, state, datetime.now(UTC))
        if after.revision == entry.revision:
            after = after.model_copy(update={"url": url_of(delivery)})
        over = entry_of(after, entry.revision)
        again = HOME_SECONDS if not delivery.spec.deploy.cluster else GUEST_SECONDS
        seconds = SOON_SECONDS if state.waits and over is not None and over.outcome == "Deploying" else again
        return Looked(after, _deployed(delivery, after, entry, state), 0.0 if _turned(entry, over) else seconds)

    def _not_seen(self, delivery: Delivery, entry: DeliveredRevision, error: VmatrixError) -> Looked:
        """Tell why nothing was seen of the target; while that may pass by itself, what was said of it stays."""
        # What the API refuses of an object is told of that; a refusal of all of it passes: another CA, a restart.
        reason = UNREACHABLE if isinstance(error, ApiFailure) else getattr(error, "reason", "") or UNREACHABLE
        if reason == CLUSTER_MISSING:
            self._known.pop(_key(delivery), None)
            return Looked(lost(delivery.status, entry), (DEPLOYED, False, reason, error.with_hint), GUEST_SECONDS)
        if reason != UNREACHABLE:
            return Looked(delivery.status, (DEPLOYED, False, reason, error.with_hint), GUEST_SECONDS)
        status: bool | None = False
        if entry.outcome == "Ready":
            since = self._silent.setdefault(_key(delivery), time.monotonic())
            last = next(
                (known_condition for known_condition in delivery.status.conditions if known_condition.type == DEPLOYED),
                None,
            )
            if time.monotonic() - since >= SILENT_SECONDS or last is None:
                status = None
            else:  # of an edit that came meanwhile, nothing is there yet
                edited = (last.observed_generation or 0) < delivery.metadata.generation
                status = {"True": not edited, "False": False}.get(last.status)
        return Looked(delivery.status, (DEPLOYED, status, reason, error.with_hint), GUEST_SECONDS)

    def _pull_secret(self, delivery: Delivery) -> bytes | None:
        """Return what the target's copy of the Secret by which nodes pull is to hold; None where it needs no copy."""
        deploy, namespace = delivery.spec.deploy, delivery.metadata.namespace
        if deploy.pull_secret_ref is None:
            return None
        name = deploy.pull_secret_ref.name
        content = named_content(self._cluster, name, namespace).get(PULL_KEY)
        if content is None:
            raise NotDeployable(
                "BadPullSecret",
                f"Secret {name} has no key {PULL_KEY}: make it of type {PULL_SECRET_TYPE} "
                f"(kubectl create secret docker-registry {name})",
            )
        return content if deploy.cluster else None

    def _verify(self, delivery: Delivery, entry: DeliveredRevision) -> None:
        """Refuse an image that is not signed by the key that it is to be signed by; what was ready was signed."""
        build = delivery.spec.build
        if build.signing_secret_ref is None or entry.image is None:
            return
        if entry.image in self._verified or entry.outcome == "Ready":
            return
        namespace = delivery.metadata.namespace
        public = named_content(self._cluster, build.signing_secret_ref.name, namespace).get("cosign.pub")
        if public is None:
            raise NotDeployable("NoPublicKey", f"Secret {build.signing_secret_ref.name} has no key cosign.pub")
        config = None
        if build.push_secret_ref is not None:
            config = named_content(self._cluster, build.push_secret_ref.name, namespace).get(".dockerconfigjson")
        verify(entry.image, public, docker_config=config, insecure=build.insecure, seconds=VERIFY_SECONDS)
        self._verified.add(entry.image)

    def _set(self, target: Cluster, delivery: Delivery) -> ApplySet:
        meta = delivery.metadata
        name = f"delivery-{meta.namespace}-{meta.name}"  # others of this name may be delivered into the same place
        parent = ApplySetParent(name, target_namespace(delivery), TOOLING, owner_of(delivery))
        known = self._known.setdefault(_key(delivery), {})
        return ApplySet(target, parent, name, known, left_to_autoscaler)

    def _apply(
        self, target: Cluster, delivery: Delivery, entry: DeliveredRevision, pulls: bytes | None
    ) -> ApplySetLook:
        space = target_namespace(delivery)
        if delivery.spec.deploy.cluster and target.get(NAMESPACE, space) is None:
            labels = {LABEL_MANAGED: MANAGED_BY}  # it stays: others may use it, too
            target.create_if_absent(NAMESPACE, NAMESPACE.manifest(space, "", labels=labels))
        there = target.get(DEPLOYMENT, delivery.metadata.name, space)
        objects = application_objects(delivery, entry, scaled=is_scaled(there), pulls=pulls)
        labels = {LABEL_MANAGED: MANAGED_BY, DELIVERY_LABEL: delivery.metadata.name}
        look = self._set(target, delivery).bring(objects, labels, lambda _: True)
        if look.changed and entry.outcome == "Ready" and there is not None:
            self._context.events.normal(
                self._about(delivery), "PutBack", f"put back: {', '.join(look.changed)}", component=COMPONENT
            )
        return look

    def _state(self, target: Cluster, delivery: Delivery, entry: DeliveredRevision, look: ApplySetLook) -> RolloutState:
        """Return how far what was applied is."""
        if look.failures:
            return RolloutState("; ".join(look.failures), "", "NotApplied")
        namespace = target_namespace(delivery)
        deployment = target.get(DEPLOYMENT, delivery.metadata.name, namespace)
        if deployment is None:
            return RolloutState("the Deployment was deleted just now")
        state = rollout_state(deployment, entry.image or "", ())
        if not state.waits:
            return RolloutState("; ".join([*look.waits, *(f"{left_object} is to go" for left_object in look.left)]))
        chosen = ",".join(f"{key}={value}" for key, value in selector(delivery).items())
        return rollout_state(deployment, entry.image or "", target.list(POD, namespace, labels=chosen).items)

    def _remove(self, obj: Json, delivery: Delivery) -> float | None:
        """Take the application away where it does not go with its Delivery, then let that go."""
        if APPLICATION_FINALIZER not in (obj["metadata"].get("finalizers") or ()):
            return None
        if not self._targets.last(delivery):
            try:
                with self._targets.open(delivery, settled=True) as target:
                    if self._set(target, delivery).bring([], {}, lambda _: True).left:
                        return SOON_SECONDS
            except VmatrixError as error:
                if getattr(error, "reason", "") != "NotPermitted":
                    self._context.events.warning(obj, "DeletionWaits", error.with_hint, component=COMPONENT)
                    return GUEST_SECONDS
        rest = [finalizer for finalizer in obj["metadata"]["finalizers"] if finalizer != APPLICATION_FINALIZER]
        self._deliveries.merge(obj, {"metadata": {"finalizers": rest or None}})
        return None

    def _about(self, delivery: Delivery) -> Json:
        return self._deliveries.get(delivery.metadata.namespace, delivery.metadata.name) or {}

    def _write(self, obj: Json, delivery: Delivery, status: DeliveryStatus, deployed: Said) -> None:
        """Write what is told, if it is something else, and say what has come to its end."""
        body = written(delivery, status, [deployed], datetime.now(UTC))
        if body == (obj.get("status") or {}):
            return
        self._deliveries.replace_status(obj, body)
        for entry in status.history:
            before = entry_of(delivery.status, entry.revision)
            if _turned(before, entry):
                self._tell(obj, entry)

    def _tell(self, obj: Json, entry: DeliveredRevision) -> None:
        say, name = self._context.events, short(entry.revision)
        if entry.outcome == "Ready":
            say.normal(obj, "Delivered", f"{name} is ready after {entry.seconds} s", component=COMPONENT)
            self._context.metrics.delivered(_since_commit(entry))
        elif entry.outcome in ("RolledBack", "Failed"):
            say.warning(obj, entry.outcome, f"{name}: {entry.message}", component=COMPONENT)


def _key(delivery: Delivery) -> Key:
    return delivery.metadata.namespace, delivery.metadata.name


def _turned(before: DeliveredRevision | None, after: DeliveredRevision | None) -> bool:
    """Tell whether a rollout has come to its end."""
    return (
        before is not None
        and after is not None
        and before.outcome != after.outcome
        and after.outcome in ("Ready", "RolledBack", "Failed")
    )


def _since_commit(entry: DeliveredRevision) -> float | None:
    """Return the seconds from a commit until it was ready; from when it was seen where nobody knows more."""
    first = entry.committed or entry.seen
    return (parse_time(entry.ended) - parse_time(first)).total_seconds() if first and entry.ended else None


def _deployed(delivery: Delivery, status: DeliveryStatus, entry: DeliveredRevision, state: RolloutState) -> Said:
    """Return condition Deployed after a look at a revision."""
    newest: Sequence[DeliveredRevision] = [
        entry_with_image for entry_with_image in status.history if entry_with_image.image is not None
    ]
    back = newest[0] if newest and newest[0].outcome == "RolledBack" else None
    if back is not None:
        return DEPLOYED, False, "RolledBack", f"{short(back.revision)}: {back.message}; {short(entry.revision)} runs"
    name = short(entry.revision)
    if state.failed:
        return DEPLOYED, False, state.reason, f"{name}: {state.failed}"
    if state.waits:
        return DEPLOYED, False, state.reason, f"{name}: {state.waits}"
    return DEPLOYED, True, "Applied", f"{name} runs in namespace {target_namespace(delivery)}"


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(Rollouts(context).controller)

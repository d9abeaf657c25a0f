"""Deliveries: what is seen of an application whose revisions the product builds, and what must be true of it.

The application answers "/" with its revision and its file `answer` (harness/infra/deliveries.py). A client in the same
cluster, the infra cluster or the guest, asks it all through the phases, by its Service.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import pairwise

from harness.artifacts.registry import digest_in
from harness.errors import HarnessBug
from harness.infra.deliveries import CLIENT, CLIENT_LABEL, Pushed, Request, pushed, read_requests
from harness.kube.client import Cluster, Json, resource_of
from harness.kube.objects import condition, deleting, dig, parse_time, phase
from harness.kube.resources import DEPLOYMENT, POD, SERVICE, Resource
from harness.model import Cell
from harness.rundir import AttemptDir
from harness.spec.models.product_declared import DeletedObject
from harness.validate.findings import Mismatch, differs
from harness.validate.topics.ingress import Page, get_page
from harness.validate.variables import TRAEFIK, asked_for

# The API of the kind Delivery, as its users see it (docs/operator/delivery.md).
DELIVERY = Resource("delivery.vmatrix.dev", "v1alpha1", "deliveries", "Delivery")
DELIVERY_LABEL = "delivery.vmatrix.dev/delivery"  # of the Deployment that is made of one
ANSWERS, ROLLS_BACK, COMES_BACK = "answers", "rolls-back", "comes-back"  # values of a phase's `delivery`
FRESH = 3  # requests, the last ones
LEAST = 5  # requests while a bad revision is deployed: one that is not ready is waited for half a minute and more
UNWATCHED_SECONDS = 10.0  # a busy host sends requests late; a longer gap counts as not watched
DIGITS = 12  # of a revision: the tag of its image


def of(*kinds: str) -> Callable[[Cell, int], bool]:
    """Return the condition that a phase says one of these of a delivery."""
    return lambda cell, index: cell.phases[index].delivery in kinds


def into_guest(*kinds: str) -> Callable[[Cell, int], bool]:
    """Return the condition that a phase says one of these of a delivery into the guest."""
    return lambda cell, index: of(*kinds)(cell, index) and bool(cell.phases[index].delivery_into)


def with_ingress(*kinds: str) -> Callable[[Cell, int], bool]:
    """Return the condition that such a phase's guest has an ingress controller besides."""
    return lambda cell, index: into_guest(*kinds)(cell, index) and asked_for(TRAEFIK)(cell, index)


@dataclass(frozen=True)
class Revisions:
    """What was pushed: the revision that is to answer after a phase, and the bad one that a phase pushed, if any."""

    good: Pushed
    bad: Pushed | None


def revisions(cell: Cell, index: int, files: AttemptDir) -> Revisions:
    """Return the revisions of a phase.

    Raises:
        HarnessBug: no phase before it has pushed one that answers.
    """
    deliveries = [cell_phase.delivery for cell_phase in cell.phases[: index + 1]]
    answering = [number for number, word in enumerate(deliveries) if word == ANSWERS]
    if not answering:
        raise HarnessBug("nothing was delivered yet", hint="a phase with `delivery: answers` comes first")
    bad = pushed(files.repository, cell.stage(index)) if deliveries[-1] == ROLLS_BACK else None
    return Revisions(pushed(files.repository, cell.stage(answering[-1])), bad)


@dataclass(frozen=True)
class DeliverySight:
    """What is seen of the only Delivery of a namespace.

    deployments, pods: of its application; pods that are being deleted are left out.  requests: of the client.
    digests: in the registry, by tag; "" where it has none.
    """

    delivery: Json
    deployments: Sequence[Json]
    pods: Sequence[Json]
    requests: Sequence[Request]
    digests: Mapping[str, str]

    def entry(self, revision: str) -> Json:
        """Return what the history says of a revision; empty where it says nothing."""
        history = dig(self.delivery, "status", "history") or ()
        return next((entry for entry in history if entry.get("revision") == revision), {})


def look(
    cluster: Cluster, namespace: str, registry: str, tags: Collection[str], guest: Cluster | None = None
) -> DeliverySight:
    """Look at a cell's namespace in the infra cluster, and into the registry that pods push to.

    Args:
        guest: the cluster that the application runs in, with its client, if it is not the infra cluster.

    Raises:
        HarnessBug: it has not one Delivery, or not one client.
    """
    (delivery,) = _one(cluster.list(DELIVERY, namespace).items, "Delivery")
    target, name = guest or cluster, delivery["metadata"]["name"]
    clients = target.list(POD, namespace if guest is None else None, labels=CLIENT_LABEL).items
    (client,) = _one(_there(clients), "client")
    deployments = target.list(DEPLOYMENT, namespace, labels=f"{DELIVERY_LABEL}={name}").items
    pods = [
        pod for deployment in deployments for pod in target.list(POD, namespace, labels=_selector(deployment)).items
    ]
    repository = str(dig(delivery, "status", "repository") or "").partition("/")[2]
    log = target.pod_log(client["metadata"]["namespace"], client["metadata"]["name"], container=CLIENT)
    return DeliverySight(
        delivery,
        deployments,
        [pod for pod in _there(pods) if phase(pod) == "Running"],
        read_requests(log),
        {tag: digest_in(registry, repository, tag) if repository else "" for tag in tags},
    )


def _one(objects: Sequence[Json], what: str) -> Sequence[Json]:
    if len(objects) != 1:
        raise HarnessBug(f"the cell's namespace has {len(objects)} objects that are a {what}", hint="it is to have one")
    return objects


def _there(objects: Sequence[Json]) -> list[Json]:
    return [obj for obj in objects if not deleting(obj)]


def _selector(deployment: Json) -> str:
    labels = dig(deployment, "spec", "selector", "matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in labels.items())


def wrong_answers(sight: DeliverySight, good: Pushed) -> list[Mismatch]:
    """Return how the last answers differ from the revision: asked since it was ready, and since its Deployment is."""
    ready = sight.entry(good.revision).get("ended")
    if ready is None:
        return [Mismatch(f"the history's entry of {good.revision}", "a time since when it is ready", "none")]
    made = [str(deployment["metadata"]["creationTimestamp"]) for deployment in sight.deployments]
    since = max(parse_time(moment).timestamp() for moment in (str(ready), *made))
    fresh = [request for request in sight.requests if request.at >= since][-FRESH:]
    mismatches = (
        [Mismatch("the client", f"{FRESH} requests since it was ready", str(len(fresh)))] if len(fresh) < FRESH else []
    )
    return mismatches + [finding for request in fresh for finding in _wrong(request, good)]


def _wrong(asked: Request, good: Pushed) -> Iterator[Mismatch]:
    if asked.why:
        yield Mismatch(f"the request at {asked.at:.1f}", f"the answer {good.answer!r}", asked.why)
    else:
        yield from differs(f"the request at {asked.at:.1f}", "the answer", good.answer, asked.answer)


def wrong_images(sight: DeliverySight, good: Pushed) -> list[Mismatch]:
    """Return where another image than the registry's of the revision runs, or is said to."""
    tag, status = good.revision[:DIGITS], sight.delivery.get("status") or {}
    digest = sight.digests.get(tag, "")
    if not digest:
        return [Mismatch(f"the registry, {status.get('repository')}:{tag}", "an image", "none")]
    image = f"{status.get('repository')}@{digest}"
    mismatches = differs("status.revision of the Delivery", "the revision", good.revision, status.get("revision"))
    mismatches += differs("status.image of the Delivery", "the image", image, status.get("image"))
    mismatches += differs("the application", "Deployments", 1, len(sight.deployments))
    for deployment in sight.deployments:
        images = [container["image"] for container in deployment["spec"]["template"]["spec"]["containers"]]
        mismatches += differs(f"Deployment {deployment['metadata']['name']}", "the images", [image], images)
    if not sight.pods:
        mismatches.append(Mismatch("the application", "a pod that runs", "none"))
    for pod in sight.pods:
        where = f"pod {pod['metadata']['name']}"
        running = [
            str(status_of_container.get("imageID", ""))
            for status_of_container in dig(pod, "status", "containerStatuses") or ()
        ]
        mismatches += differs(where, "the digests", [digest], [image_id.rpartition("@")[2] for image_id in running])
    return mismatches


def not_rolled_back(sight: DeliverySight, bad: Pushed) -> list[Mismatch]:
    """Return what is not said of a bad revision that was built, pushed, deployed and taken back."""
    entry, tag = sight.entry(bad.revision), bad.revision[:DIGITS]
    if not entry:
        return [Mismatch("the history of the Delivery", f"an entry of {bad.revision}", "none")]
    where = f"the history's entry of {tag}"
    mismatches = differs(where, "the outcome", "RolledBack", entry.get("outcome"))
    digest = sight.digests.get(tag, "")
    mismatches += differs(
        where, "the digest of the image", digest or "of the registry", str(entry.get("image")).rpartition("@")[2]
    )
    mismatches += [Mismatch(where, f"a time ({key})", "none") for key in ("deployed", "ended") if not entry.get(key)]
    ready = condition(sight.delivery, "Ready") or {}
    told = (ready.get("status"), ready.get("reason"))
    return mismatches + differs("condition Ready of the Delivery", "status and reason", ("False", "RolledBack"), told)


def interrupted(sight: DeliverySight, bad: Pushed, good: Pushed) -> list[Mismatch]:
    """Return the requests that the good revision did not answer while the bad one was deployed, and gaps between."""
    entry = sight.entry(bad.revision)
    if not entry.get("deployed") or not entry.get("ended"):
        return [Mismatch(f"the history's entry of {bad.revision}", "when it was deployed and rolled back", "neither")]
    begins, ends = (parse_time(str(entry[key])).timestamp() for key in ("deployed", "ended"))
    asked = [request for request in sight.requests if begins <= request.at <= ends]
    if len(asked) < LEAST:
        requirement = f"{LEAST} requests while the bad revision was deployed ({ends - begins:.0f} s)"
        return [Mismatch("the client", requirement, str(len(asked)))]
    moments = [begins, *(request.at for request in asked), ends]
    gap = max(after - before for before, after in pairwise(moments))
    mismatches = [Mismatch("the client", f"a request each {UNWATCHED_SECONDS:.0f} s", f"none for {gap:.0f} s")]
    mismatches = mismatches if gap > UNWATCHED_SECONDS else []
    return mismatches + [finding for request in asked for finding in _wrong(request, good)]


def not_made_again(
    cluster: Cluster, namespace: str, sight: DeliverySight, objects: Sequence[DeletedObject]
) -> list[Mismatch]:
    """Return which of the deleted objects are not there, or are those that were there before: no revision came since.

    Raises:
        HarnessBug: none was deleted, or the history has no revision that has ended.
    """
    ended = [
        parse_time(str(entry["ended"]))
        for entry in dig(sight.delivery, "status", "history") or ()
        if entry.get("ended")
    ]
    if not objects or not ended:
        raise HarnessBug("nothing was deleted, or nothing was delivered before that", hint="see `deleted` of the phase")
    mismatches = []
    for obj in objects:
        resource, where = resource_of(cluster, obj.apiVersion, obj.kind), f"{obj.kind} {obj.name}"
        there = cluster.get(resource, obj.name, namespace) if resource is not None else None
        if there is None:
            mismatches.append(Mismatch(where, "an object", "none"))
        elif parse_time(there["metadata"]["creationTimestamp"]) <= max(ended):
            mismatches.append(Mismatch(where, f"made after {max(ended)}", there["metadata"]["creationTimestamp"]))
    return mismatches


PUT_BACK_SECONDS = 10.0  # in a guest, by docs/operator/delivery.md
BUSY_SECONDS = 10.0  # that a busy host sends requests and looks at a guest late


def put_back_late(cluster: Cluster, namespace: str, sight: DeliverySight, name: str) -> list[Mismatch]:
    """Return whether a Service was put back too late: counted from the first request that it did not answer.

    How a request failed does not matter: resolvers go on telling the address of a Service that is gone for a while.

    Args:
        cluster: that the application runs in.
    """
    where = f"Service {name}"
    there = cluster.get(SERVICE, name, namespace)
    if there is None:
        return [Mismatch(where, "an object", "none")]
    made = parse_time(there["metadata"]["creationTimestamp"]).timestamp()
    before = [request for request in sight.requests if request.at < made]
    if not before:
        return [Mismatch("the client", f"requests before {where} was put back", "none")]
    answered = max((request.at for request in before if request.answer), default=0.0)
    missed = [request.at for request in before if request.at > answered]
    took, limit = made - min(missed, default=made), PUT_BACK_SECONDS + BUSY_SECONDS
    return [Mismatch(where, f"put back within {limit:.0f} s", f"after {took:.0f} s")] if took > limit else []


def misled(delivery: Json, good: Pushed, addresses: Mapping[str, str], seconds: float) -> list[Mismatch]:
    """Return the nodes at which the host of a Delivery's Ingress does not lead to the revision.

    Args:
        addresses: of the nodes by name.  seconds: for one answer.
    """
    told = dig(delivery, "spec", "deploy", "ingress")
    if not told or not addresses:
        return [Mismatch("the Delivery", "an Ingress, and nodes", f"{told} and {len(addresses)} nodes")]
    page = Page(str(told["host"]), str(told.get("path") or "/"))
    mismatches = differs("status.url of the Delivery", "the address", str(page), dig(delivery, "status", "url"))
    for node, address in addresses.items():
        answer = get_page(address, page, seconds)
        observed = answer.error or (answer.text if answer.status == HTTPStatus.OK else f"status {answer.status}")
        mismatches += differs(f"outside -> {node} ({address}), {page}", "the answer", good.answer, observed)
    return mismatches

"""Deliveries of a pipeline: the one that a file declares, applied at one revision, and awaited until it runs."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import yaml_text
from harness.errors import BadInput, InfraError, ProductError
from harness.files import read_text
from harness.kube.client import Cluster, Json
from harness.kube.objects import condition
from harness.operator.api.conditions import ACCEPTED
from harness.operator.api.delivery import Delivery, DeliveryStatus, read_delivery
from harness.operator.api.resources import DELIVERY, RECONCILE_ANNOTATION
from harness.operator.decide.delivery import FAILED, entry_of, is_retried, short
from harness.until import Deadline, NotYet, until

MANAGER = "vmatrix-deliver"  # of the fields that a pipeline sets
LOOK_SECONDS = 1.0  # between two looks at a Delivery: builds take tens of seconds


def declared_in(file: Path, revision: str, namespace: str) -> Json:
    """Return the Delivery of a file, of exactly one revision.

    Args:
        revision: its full SHA, in place of the branch or tag that the file has.
        namespace: where it lies if the file names none.

    Raises:
        BadInput: the file has none or several, or what is wrong with it.
    """
    objects = [entry for entry in yaml_text.documents(read_text(file), file) if isinstance(entry, dict)]
    declared = [
        entry
        for entry in objects
        if (entry.get("apiVersion"), entry.get("kind")) == (DELIVERY.api_version, DELIVERY.kind)
    ]
    if len(declared) != 1:
        hint = f"it needs one object with apiVersion: {DELIVERY.api_version} and kind: {DELIVERY.kind}"
        raise BadInput(f"{file} has {len(declared) or 'no'} objects of kind {DELIVERY.kind}", hint=hint)
    body: Any = declared[0]
    meta, spec = body.get("metadata"), body.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get("source"), dict):
        source = {name: value for name, value in spec["source"].items() if name not in ("branch", "tag")}
        body = {**body, "spec": {**spec, "source": {**source, "revision": revision}}}
    if isinstance(meta, dict):
        body = {**body, "metadata": {"namespace": namespace, **meta}}
    mistakes = read_delivery(body)[1]
    if mistakes:
        text = "\n".join(f"{file}: {entry.text}" for entry in mistakes)
        raise BadInput(text.partition("\n")[0], detail=text.partition("\n")[2], hint="correct the file")
    return dict(body)


def deliver(cluster: Cluster, body: Json, *, seconds: float, show: Callable[[str], None]) -> DeliveryStatus:
    """Apply a Delivery of one revision, and return its status once that runs.

    Args:
        seconds: how long that may take.  show: gets a line for each change.

    Raises:
        ProductError: it does not build, or does not come up.  BadInput: the operator refuses it.
        TimedOut: it is not ready in time; what it waits for is in the words.
    """
    meta, revision = body["metadata"], body["spec"]["source"]["revision"]
    asked = secrets.token_hex(8)  # what failed before is tried again, and not taken for the answer
    annotations = {**(meta.get("annotations") or {}), RECONCILE_ANNOTATION: asked}
    made = cluster.apply(DELIVERY, {**body, "metadata": {**meta, "annotations": annotations}}, manager=MANAGER)
    generation, shown = made["metadata"]["generation"], [""]

    def ready() -> DeliveryStatus | NotYet:
        answer = cluster.get(DELIVERY, meta["name"], meta["namespace"])
        if answer is None:
            raise InfraError(f"Delivery {meta['name']} was deleted meanwhile", hint="see who deletes it")
        state = condition(answer, "Ready") or {
            "reason": "Observing",
            "message": "the operator has not seen it yet",
        }
        line = f"{state['reason']}: {state['message']}"
        if (answer.get("status") or {}).get("observedGeneration", 0) < generation:
            return NotYet("the operator has not seen it yet")
        if line != shown[0]:
            shown[0] = line
            show(line)
        delivery = Delivery.model_validate(answer)
        _refuse_mistakes(delivery)
        if delivery.status.reconciled != asked:
            return NotYet(line)
        _refuse_failure(delivery, revision)
        runs = delivery.status.revision == revision and state.get("status") == "True"
        return delivery.status if runs else NotYet(line)

    what = f"revision {short(revision)} of Delivery {meta['name']} to run"
    return until(ready, deadline=Deadline.after(seconds), what=what, interval=LOOK_SECONDS)


def _refuse_mistakes(delivery: Delivery) -> None:
    for state in delivery.status.conditions:
        if (state.type, state.status) == (ACCEPTED, "False"):
            raise BadInput(f"Delivery {delivery.metadata.name}: {state.message}", hint="correct the object")


def _refuse_failure(delivery: Delivery, revision: str) -> None:
    """Raise what a revision has failed with, if it has."""
    name = delivery.metadata.name
    entry = entry_of(delivery.status, revision)
    if entry is None or entry.outcome not in FAILED or is_retried(entry):
        return
    line = f": {entry.line}" if entry.line else ""
    hint = f"vmatrix operator log -n {delivery.metadata.namespace} {name} {short(revision)}"
    raise ProductError(f"{short(revision)}: {entry.outcome}: {entry.reason}: {entry.message}{line}", hint=hint)

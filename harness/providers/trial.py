"""The doctor's dry run of an infra cluster's network: labelled like a cell, so that `vmatrix reap` finds it."""

from __future__ import annotations

import secrets
import time

from harness.artifacts import refs
from harness.artifacts.catalogue import IMAGE_PREFIX, load
from harness.artifacts.node.rootfs import BUSYBOX
from harness.cell.labels import cell_labels, namespace_name
from harness.infra.cluster.trial import NetworkTrial
from harness.infra.cluster.trial_pods import SCRIPT_SECONDS
from harness.spec.models import Timeouts
from harness.spec.settings import Settings

CELL = "doctor"


def trial_of(settings: Settings, timeouts: Timeouts) -> NetworkTrial:
    """Return a fresh dry run."""
    run, seconds = secrets.token_hex(3), timeouts.doctor_pods
    expires_at = time.time() + 2 * seconds + SCRIPT_SECONDS  # each pod has as long
    busybox = refs.newest(load(), BUSYBOX)
    image = f"{settings.registry}/{BUSYBOX.removeprefix(IMAGE_PREFIX)}:{busybox.version}"
    return NetworkTrial(
        name=namespace_name(run, CELL, 1) if settings.namespace is None else f"{CELL}-{run}-1",
        labels=cell_labels(run=run, cell=CELL, attempt=1, expires_at=expires_at),
        shared=settings.namespace,
        images=(image,) if settings.registry is not None else (),
        seconds=seconds,
    )

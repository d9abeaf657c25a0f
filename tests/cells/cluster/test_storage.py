"""Where the cell has a storage provisioner, claims are bound, writes kept, and released volumes deleted."""

from __future__ import annotations

import secrets

import pytest

from harness.model import Mirror
from harness.spec.models import Timeouts
from harness.until import Deadline
from harness.validate.conformance.curated import BUSYBOX
from harness.validate.findings import require
from harness.validate.inspection import Inspection
from harness.validate.topics import storage
from harness.validate.variables import LOCAL_PATH_PROVISIONER, asked_for

pytestmark = pytest.mark.when(phase=asked_for(LOCAL_PATH_PROVISIONER))


def test_one_storage_class_is_the_default(inspection: Inspection) -> None:
    require(
        storage.wrong_default_class(inspection.api),
        claim="exactly one storage class is the default",
        look=f"the annotation {storage.DEFAULT} of storage classes",
        do="kubectl --kubeconfig kubeconfig get storageclasses",
    )


def test_a_volume_keeps_what_a_pod_wrote_for_another_and_goes_with_its_claim(
    inspection: Inspection, mirror: Mirror, timeouts: Timeouts
) -> None:
    image = inspection.probe_image(BUSYBOX, mirror.images)
    try:
        found = storage.lost_writes(
            inspection.api, image=image, token=secrets.token_hex(8), deadline=Deadline.after(timeouts.volume)
        )
    finally:
        storage.remove(inspection.api)
    require(
        found,
        claim="a volume of the default class keeps what one pod wrote for another, and is deleted with its claim",
        look="the provisioner's log and its helper pods; the events of the claim and the pods",
        do="kubectl --kubeconfig kubeconfig -n local-path-storage logs deployment/local-path-provisioner",
    )

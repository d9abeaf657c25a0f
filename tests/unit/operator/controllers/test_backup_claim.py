"""Which claims a snapshot can be put into, and what is said of the others."""

from __future__ import annotations

from typing import Any

import pytest

from harness.operator.controllers.backup_claim import class_of, trouble_of


def claim(phase: str | None = "Pending", deleted: str | None = None) -> dict[str, Any]:
    """Return a PersistentVolumeClaim."""
    meta = {"name": "c", **({"deletionTimestamp": deleted} if deleted else {})}
    return {"metadata": meta, "spec": {"storageClassName": "pods"}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("found", "binding"),
    [
        (claim("Bound"), "Immediate"),
        (claim(), "WaitForFirstConsumer"),
        (claim(None), "WaitForFirstConsumer"),
        (claim(), None),
    ],
)
def test_claim_that_a_pod_can_use(found: dict[str, Any], binding: str | None) -> None:
    assert trouble_of("c", found, binding) is None


@pytest.mark.parametrize(
    ("found", "binding", "reason", "words"),
    [
        (None, None, "ClaimNotFound", "there is no PersistentVolumeClaim c: create it in this namespace"),
        (claim(), "Immediate", "ClaimNotBound", "c is Pending, and no pod can use it: `kubectl describe pvc c`"),
        (claim("Lost"), "WaitForFirstConsumer", "ClaimNotBound", "c is Lost"),
        (claim("Bound", deleted="2026"), None, "ClaimNotBound", "is being deleted: make another EtcdBackup"),
    ],
)
def test_claim_that_no_pod_can_use(found: Any, binding: str | None, reason: str, words: str) -> None:
    trouble = trouble_of("c", found, binding)
    assert trouble is not None
    assert trouble.reason == reason
    assert words in trouble.message


def test_only_a_claim_without_a_volume_waits_for_its_class() -> None:
    assert [class_of(one) for one in (None, claim("Bound"), claim())] == [None, None, "pods"]

"""The objects that the real KubeVirt made in the recording."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Json = dict[str, Any]
WATCH: Json = json.loads(
    (Path(__file__).parents[2] / "contract" / "recorded" / "vm-lifecycle.json").read_text(encoding="utf-8")
)["watch"]
RECORDED_AT = datetime(2026, 11, 21, 9, 59, 8, tzinfo=UTC)
TIMES = ("lastProbeTime", "lastTransitionTime")


def versions(kind: str) -> list[Json]:
    """Return the versions of the recorded vm, vmi or pod, in their order."""
    return [copy.deepcopy(event["object"]) for event in WATCH[kind]]


def untimed(status: Json) -> Json:
    """Drop what depends on the clock."""
    found = copy.deepcopy(status)
    for condition in found.get("conditions") or []:
        for key in TIMES:
            condition.pop(key, None)
    found.pop("phaseTransitionTimestamps", None)
    return found


def without_nulls(obj: Any) -> Any:
    if isinstance(obj, dict):
        return {k: without_nulls(v) for k, v in obj.items() if v is not None}
    return [without_nulls(v) for v in obj] if isinstance(obj, list) else obj

"""The snapshots of etcd that a Cluster knows of, once an operation on one has ended; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from harness.kube.client import Json
from harness.operator.api.cluster import SNAPSHOTS_LENGTH
from harness.operator.api.snapshots import SnapshotFacts
from harness.operator.execute.inputs import BACKUP


def snapshots_after(known: Sequence[Json], operation: Json, said: Mapping[str, Any]) -> list[Json]:
    """Return the snapshots that there are after an operation that succeeded.

    Args:
        known: those before it.  said: what its executor found out about the one that it took.
    """
    about = operation.get("snapshot")
    if about is None:
        return list(known)
    gone = {(about["claim"], file) for file in about.get("forget") or ()}
    if operation["operation"] != BACKUP:
        return [one for one in known if (one["claim"], one["file"]) not in gone]
    gone.add((about["claim"], about["file"]))
    place = {name: about[name] for name in ("backup", "uid", "claim", "file")}
    kept = [one for one in known if (one["claim"], one["file"]) not in gone]
    return [{**place, **_facts(said)}, *kept][:SNAPSHOTS_LENGTH]


def _facts(said: Mapping[str, Any]) -> Json:
    """Return facts as a status has them; none where the executor's words have another form."""
    try:
        made: Json = SnapshotFacts.model_validate(dict(said)).model_dump(mode="json", by_alias=True, exclude_none=True)
    except ValidationError:
        return {}
    return made

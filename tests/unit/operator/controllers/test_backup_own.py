"""EtcdBackups that the operator makes by itself, and which of them it keeps."""

from __future__ import annotations

from typing import Any

from harness.operator.controllers.backup_own import owners, surplus, to_make
from harness.operator.controllers.cluster_view import DeclaredView
from tests.unit.operator.controllers.backed_up import APPLIED, backup, view
from tests.unit.operator.controllers.looks import UID

POLICY = {"beforeDisruption": True, "destination": {"claim": "claim"}}
OLDER = {**APPLIED, "version": "1.36.1", "digests": {"version": "old"}}
EARLIER = {"sequence": 1, "operation": "upgrade", "outcome": "succeeded", "ended": "2026-01-02T00:00:00Z"}


def upgrading(*backups: dict[str, Any], **status: Any) -> DeclaredView:
    """Return a cluster that is to be upgraded after a backup."""
    return view(*backups, policy=POLICY, **{"applied": OLDER, **status})


def wished() -> str:
    """Return the digest of its wish."""
    desired = upgrading().desired
    assert desired is not None
    return desired.digest


def test_backup_is_made_for_an_upgrade_that_waits_for_it() -> None:
    made = to_make(upgrading(), [])
    assert made is not None
    assert made["metadata"]["name"].startswith("guest-before-2-")
    assert made["metadata"]["labels"]["cluster.vmatrix.dev/before"] == wished()
    assert made["spec"] == {"cluster": "guest"}
    assert to_make(upgrading(), [made]) is None


def test_no_backup_is_made_where_nothing_waits_for_it() -> None:
    assert to_make(view(policy=POLICY, applied=None), []) is None
    assert to_make(view(applied=OLDER), []) is None
    assert to_make(upgrading(backup(before=wished(), phase="Verified", taken="2026-01-03T00:00:00Z")), []) is None


def test_backup_before_an_earlier_upgrade_to_the_same_does_not_count() -> None:
    old = backup(before=wished(), phase="Verified", taken="2026-01-01T00:00:00Z")
    assert to_make(upgrading(old, history=[EARLIER]), [old]) is not None


def test_latest_of_its_own_are_kept_and_all_of_a_persons() -> None:
    own = [backup(f"o-{n}", before="d", made=str(n), phase="Verified") for n in range(4)]
    bad = [backup(f"f-{n}", before="d", made=str(n), phase="Failed") for n in range(3)]
    running = backup("r", before="d", made="0", phase="Running")
    hers = [backup(f"h-{n}", made="0", phase="Verified") for n in range(5)]
    desired = view(policy={**POLICY, "keep": 2}).desired
    assert desired is not None
    gone = [one["metadata"]["name"] for one in surplus([*own, *bad, running, *hers], desired)]
    assert gone == ["o-1", "o-0", "f-0"]


def test_backup_goes_with_its_cluster_only_where_the_object_says_so() -> None:
    one, kept = backup(), view()
    bound = view(spec={"deletion": {"backups": "Delete"}})
    (owner,) = owners(one, bound)
    assert (owner["kind"], owner["uid"]) == ("ClusterDeployment", UID)
    assert owners({**one, "metadata": {**one["metadata"], "ownerReferences": [owner]}}, kept) == []
    assert owners(backup(clusterUid="of-an-earlier-cluster"), bound) == []

"""What a look into a machine of a cluster found, as its status; pure."""

from __future__ import annotations

from datetime import datetime

from harness.kube.client import Json
from harness.kube.objects import dig
from harness.machines.inspection_program import Inspected
from harness.operator.api.conditions import ANSWERING, SETTINGS_AS_APPLIED, new
from harness.operator.controllers.certificate_dates import dates
from harness.operator.controllers.drift import as_applied, last_end, last_writer, settled
from harness.operator.controllers.machine_conditions import steady
from harness.operator.controllers.probe import ProbeTrouble, TroubleReason

BELIEVED = 2  # logins in a row that fail: one may have met a moment of trouble on the way
ANSWERS = frozenset({TroubleReason.KEY_REFUSED, TroubleReason.NOT_PERMITTED})  # said by a machine that runs
KUBELET = "/var/lib/kubelet/config.yaml"
OURS = frozenset({ANSWERING, SETTINGS_AS_APPLIED})


def findings(
    machine: Json,
    found: Inspected | ProbeTrouble,
    failed: int,
    cluster: Json,
    moment: datetime,
) -> Json:
    """Return the keys of a Machine's status after a look.

    Args:
        failed: logins in a row that have failed, this one included.  cluster: its Cluster, as it was all the while.
    """
    conditions = dig(machine, "status", "conditions") or []
    if isinstance(found, ProbeTrouble):
        wanted = _no_answer(found, failed, moment)
        return {"conditions": steady(conditions, [wanted])} if wanted is not None else {}
    kubelet = f"; its kubelet.service is {found.kubelet}" if KUBELET in found.files else ""
    words = f"{dig(machine, 'spec', 'user') or 'the operator'} can log in{kubelet}"
    settings = settled(dig(machine, "status", "settings"), found.files, last_writer(cluster))
    settings["seen"] = last_end(cluster)
    wanted_now = [new(ANSWERING, True, "LoggedIn", words, moment, None), as_applied(settings, moment)]
    expiry = dates(found.certificates, found.files)
    return {
        "certificates": _whole(dig(machine, "status", "certificates"), expiry),
        "settings": settings,
        "conditions": steady(conditions, wanted_now),
    }


def without_findings(machine: Json) -> Json:
    """Return the keys of the status of a Machine that is part of no cluster (any more), where it has others."""
    status = machine.get("status") or {}
    conditions = status.get("conditions") or []
    kept = [one for one in conditions if one["type"] not in OURS]
    return {"certificates": None, "settings": None, **({"conditions": kept} if kept != conditions else {})}


def _no_answer(trouble: ProbeTrouble, failed: int, moment: datetime) -> Json | None:
    """Return what a login that found nothing says of whether the machine answers; None: nothing yet."""
    if trouble.reason in ANSWERS:
        return new(ANSWERING, True, trouble.reason, trouble.message, moment, None)
    if trouble.reason != TroubleReason.UNREACHABLE:
        return new(ANSWERING, None, trouble.reason, trouble.message, moment, None)
    return new(ANSWERING, False, trouble.reason, trouble.message, moment, None) if failed >= BELIEVED else None


def _whole(old: Json | None, new: Json | None) -> Json | None:
    """Return the patch after which a map is another one as a whole."""
    return {**dict.fromkeys(old or {}, None), **new} if new is not None and new != old else new

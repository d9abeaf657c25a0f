"""What befalls instances: what the node agent does not do, and what the status then says that is not so."""

from __future__ import annotations

import copy
from datetime import UTC, datetime

from harness.embedded.faults.asked import Faults
from harness.kube.client import Json
from harness.kube.objects import dig, parse_time, stamp, with_condition

MOVED_TO = "00000000-0000-4000-8000-"  # begins the uid of the launcher that an instance moved to


def told(faults: Faults, vmi: Json) -> Json | None:
    """Return the status that a running instance is to have in place of its own; None when it has it already."""
    status: Json = copy.deepcopy(vmi["status"])
    moment = datetime.now(UTC)
    asked = faults.of(vmi, "address")
    if asked is not None and asked["reported"]:
        _set_address(status, str(asked["reported"]))
    _connect_agent(faults, vmi, status, moment)
    _move(faults, vmi, status, moment)
    return None if status == vmi["status"] else status


def _connect_agent(faults: Faults, vmi: Json, status: Json, moment: datetime) -> None:
    asked = faults.of(vmi, "agent")
    if asked is None or _running_for(vmi, moment) < float(asked["after"]):
        return
    times = {"lastProbeTime": stamp(moment), "lastTransitionTime": None}
    connected = {"type": "AgentConnected", "status": "True", **times}
    status["conditions"] = with_condition(status.get("conditions") or [], connected)
    status["guestOSInfo"] = {"id": "debian", "name": "Debian GNU/Linux", "version": "13"}
    _set_address(status, str(asked["address"]))
    for interface in status.get("interfaces") or []:
        interface["infoSource"] = "domain, guest-agent"


def _move(faults: Faults, vmi: Json, status: Json, moment: datetime) -> None:
    asked = faults.of(vmi, "moves")
    if asked is None or _running_for(vmi, moment) < float(asked["after"]):
        return
    source = next(iter(dig(vmi, "status", "activePods") or {"": ""}))
    if source.startswith(MOVED_TO):
        return
    target = MOVED_TO + vmi["metadata"]["uid"][-12:]
    status["activePods"] = {target: asked["node"]}
    status["migrationState"] = {
        "sourceNode": status.get("nodeName", ""),
        "targetNode": asked["node"],
        "completed": True,
        "startTimestamp": stamp(moment),
        "endTimestamp": stamp(moment),
        "mode": "PreCopy",
    }
    status["nodeName"] = asked["node"]
    _set_address(status, str(asked["address"]))


def _set_address(status: Json, address: str) -> None:
    for interface in (status.get("interfaces") or [])[:1]:
        interface |= {"ipAddress": address, "ipAddresses": [address]}


def _running_for(vmi: Json, moment: datetime) -> float:
    entered = {t["phase"]: t["phaseTransitionTimestamp"] for t in dig(vmi, "status", "phaseTransitionTimestamps") or []}
    return (moment - parse_time(entered["Running"])).total_seconds() if "Running" in entered else 0.0

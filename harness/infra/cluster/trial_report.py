"""What the second pod of the doctor's dry run said, and what it means."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Literal

Answer = Literal["yes", "no", "unknown"]


@dataclass(frozen=True)
class Report:
    """What a pod saw of its neighbour on the same node.

    bridged: whether a machine in its place, bridged to the pod network, would reach its neighbours.
    enforced: whether the policy's closed port was closed, while the other was open.
    Each is None where it could not be told; `why` says why.
    """

    bridged: bool | None
    enforced: bool | None
    why: str = ""


def read(text: str) -> Report:
    """Read the pod's last words.

    A bridged machine has its pod's address and prefix. It asks by ARP for a neighbour within the prefix, else for the
    gateway; a gateway that the network plugin has written into the pod as a static entry is not in the machine.
    """
    said = dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)
    if said.get("open") != "yes":
        return Report(None, None, "two pods on one node do not reach each other: " + (text.strip()[-200:] or "no word"))
    enforced = None
    if said.get("still_open") == "yes":
        enforced = {"yes": False, "no": True}.get(said.get("closed", ""))
    found = re.search(r"inet (\S+)", said.get("address", ""))
    if found is None:
        return Report(None, enforced, "the image has no ip, or the pod no eth0")
    prefix = ipaddress.ip_interface(found[1]).network
    if ipaddress.ip_address(said["peer"]) in prefix:
        return _told(said.get("link", ""), enforced, "the pod may not ask by ARP")
    gateway = (re.search(r"via (\S+)", said.get("route", "")) or ["", ""])[1]
    entry = re.search(rf"{re.escape(gateway)} lladdr \S+ (?:router )?([A-Z]+)", said.get("neighbours", ""))
    if gateway and entry:  # the pod has learned it, or was given it
        return Report(entry[1] != "PERMANENT", enforced)
    return _told(said.get("gateway", ""), enforced, "the pod may not ask by ARP")


def _told(answer: str, enforced: bool | None, why: str) -> Report:
    bridged = {"yes": True, "no": False}.get(answer)
    return Report(bridged, enforced, "" if bridged is not None else why)

"""Under which address a server outside of the cluster sees pods: that of their node."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from harness.model import Mirror
from harness.validate.expected import ExpectedGuest
from harness.validate.findings import Mismatch
from harness.validate.probes import NO_DIALS, Ask, Probes, dial_all, unasked_probes

PATH = "client"  # of vmatrix's mirror: it answers with the address that it sees
HTTP = 80


def seen_of_nodes(mirror: Mirror, expected: ExpectedGuest, ask: Ask) -> dict[str, str]:
    """Return the address that the mirror sees of each node itself: the way there may translate every address.

    "" where it does not tell, as mirrors do that are not vmatrix's own.
    """
    host, port = _place(mirror)
    dialled = ask({name: {**NO_DIALS, "seen": [[host, port, PATH]]} for name in expected.nodes})
    return {name: _address(answers[0][-1]) if answers else "" for name, answers in dialled.items()}


def changed_outside(probes: Probes, mirror: Mirror, own: Mapping[str, str], expected: ExpectedGuest) -> list[Mismatch]:
    """Return the nodes whose pods the mirror sees under another address than the node itself.

    Args:
        own: that of each node.
    """
    host, port = _place(mirror)
    asked = [(name, mirror.http) for name in expected.nodes]
    answers = dial_all(asked, lambda name, _: probes.dial(name, host, port, PATH))
    found = unasked_probes(answers)
    for (name, to), answer in answers.items():
        seen = [_address(text) for text in answer.responses]
        allowed = {own.get(name, "")}
        if expected.plugin is None:  # a network plugin that nobody describes may route pods' addresses outside
            allowed.add(probes.dialling[name].address)
        if not answer.unasked and not (len(seen) == 1 and seen[0] and seen[0] in allowed):
            said = ", ".join(filter(None, seen)) or "; ".join(answer.errors) or "no answer"
            wanted = own.get(name) or "the address of its node"
            found.append(Mismatch(f"a pod on {name} -> {to}", f"{wanted} as source", said))
    return found


def _place(mirror: Mirror) -> tuple[str, int]:
    at = urlsplit(mirror.http)
    return at.hostname or "", at.port or HTTP


def _address(text: str) -> str:
    try:
        return str(ip_address(text.strip()))
    except ValueError:
        return ""

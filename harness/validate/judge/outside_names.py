"""Whether the cluster's DNS passes on what it does not know: a name outside of it is answered as machines get it."""

from __future__ import annotations

from collections.abc import Mapping

from harness.validate.expected import ExpectedGuest
from harness.validate.facts.programs import MachineSetup
from harness.validate.findings import Mismatch, differs
from harness.validate.probes import NO_DIALS, Ask

ANSWERS = (0, 3)  # "no error" and "no such name" (RFC 1035, 4.1.1): the server has asked whoever knows
WORDS = {-1: "no answer", 2: "SERVFAIL", 5: "REFUSED"}


def answering(setups: Mapping[str, MachineSetup], name: str, expected: ExpectedGuest, ask: Ask) -> dict[str, str]:
    """Return the name server that answers for a name outside of the cluster, by node; without nodes that have none."""
    asked = {node: [[server, name] for server in setups[node].resolvers] for node in expected.nodes if node in setups}
    answers = ask({node: {**NO_DIALS, "code": given} for node, given in asked.items()})
    found = {node: [server for _, server, _, code in rows if code in ANSWERS] for node, rows in answers.items()}
    return {node: servers[0] for node, servers in found.items() if servers}


def not_passed_on(
    own: Mapping[str, str], servers: Mapping[str, str], name: str, expected: ExpectedGuest, ask: Ask
) -> list[Mismatch]:
    """Return the cluster's DNS servers that give a node no answer for a name that its own name server answers for.

    Args:
        own: the name server of each node that has one.
        servers: what the cluster's are, by address: the Service, and each pod behind it.
        name: one outside of the cluster that nobody has cached.
    """
    nodes = [node for node in expected.nodes if node in own]
    answers = ask({node: {**NO_DIALS, "code": [[server, name] for server in servers]} for node in nodes})
    found = [] if len(servers) > 1 else [Mismatch("the cluster", "a DNS Service and pods behind it", str(servers))]
    for node in nodes:
        rows = answers.get(node, ())
        found += differs(node, "answers", len(servers), len(rows))
        for _, server, _, code in rows:
            if code not in ANSWERS:
                wanted = f"an answer for {name}, as {own[node]} gives it to the machine"
                where = f"{node} -> {servers[server]} ({server}:53)"
                found.append(Mismatch(where, wanted, WORDS.get(code, f"code {code}")))
    return found

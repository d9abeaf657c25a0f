"""Jinja filter `judged_requests`: which requests of kubelets for serving certificates are right.

A kubelet may ask for a certificate of its own node's name and address, and for nothing else: with one of another
machine, it could take that one's place. Needs the package cryptography, which ansible-core requires.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cryptography import x509
from cryptography.x509.oid import ExtensionOID, NameOID

SIGNER = "kubernetes.io/kubelet-serving"
USER, GROUP = "system:node:", "system:nodes"
SERVER = "server auth"
USAGES = {"digital signature", "key encipherment", SERVER}


def judged_requests(
    requests: Sequence[Mapping[str, Any]], machines: Sequence[Mapping[str, str]]
) -> dict[str, list[str]]:
    """Return the names of requests that are right, and what is wrong with each of the others.

    Args:
        requests: name, signerName, username, groups, usages and request (base64 of PEM) of each.
        machines: name and address of each, and its ipv6_address where the node has it, too.
    """
    addresses = {one["name"]: {one["address"], one.get("ipv6_address", one["address"])} for one in machines}
    judged: dict[str, list[str]] = {"right": [], "wrong": []}
    for one in requests:
        mistakes = list(_mistakes(one, addresses))
        if mistakes:
            judged["wrong"].append(f"{one['name']} of {one['username']} is not approved: {', '.join(mistakes)}")
        else:
            judged["right"].append(str(one["name"]))
    return judged


def _mistakes(one: Mapping[str, Any], addresses: Mapping[str, set[str]]) -> Iterator[str]:
    user = str(one["username"])
    node = user.removeprefix(USER)
    if one["signerName"] != SIGNER:
        yield f"its signer is {one['signerName']}"
    if not user.startswith(USER) or GROUP not in (one["groups"] or []):
        yield "it is not of a kubelet"
        return
    if node not in addresses:
        yield f"{node} is no machine of the inventory"
        return
    usages = set(one["usages"] or [])
    if SERVER not in usages or not usages <= USAGES:
        yield f"it is for {', '.join(sorted(usages))}"
    try:
        request = x509.load_pem_x509_csr(base64.b64decode(one["request"]))
        yield from _of_request(request, user, node, addresses[node])
    except ValueError as error:
        yield f"it cannot be read ({error})"


def _of_request(request: x509.CertificateSigningRequest, user: str, node: str, addresses: set[str]) -> Iterator[str]:
    if not request.is_signature_valid:
        yield "its signature is wrong"
    wanted = {NameOID.COMMON_NAME: user, NameOID.ORGANIZATION_NAME: GROUP}
    subject = [(part.oid, part.value) for part in request.subject]
    if len(subject) != len(wanted) or dict(subject) != wanted:
        yield f"its subject is {request.subject.rfc4514_string()}"
    others = [one.oid.dotted_string for one in request.extensions if one.oid != ExtensionOID.SUBJECT_ALTERNATIVE_NAME]
    if others:
        yield f"it asks for the extensions {', '.join(others)}"
    try:
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        yield "it names nothing"
        return
    for name in names:
        if isinstance(name, x509.DNSName):
            if name.value != node:
                yield f"it names {name.value}, which is not {node}"
        elif not isinstance(name, x509.IPAddress):
            yield f"it names {name.value}, which is neither a name nor an address"
        elif str(name.value) not in addresses:
            yield f"it names {name.value}, which is not {node}'s address {' or '.join(sorted(addresses))}"


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"judged_requests": judged_requests}

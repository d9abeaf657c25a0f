"""Jinja filter `judged_requests`: which requests of kubelets for serving certificates are right.

A kubelet may ask for a certificate of its own node's name and address, and for nothing else: with one of another
machine, it could take that one's place. Needs the package cryptography, which ansible-core requires.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cryptography import x509
from cryptography.x509.oid import ExtensionOID

SIGNER = "kubernetes.io/kubelet-serving"
USER, GROUP = "system:node:", "system:nodes"
SERVER = "server auth"
USAGES = {"digital signature", "key encipherment", SERVER}


def judged_requests(
    requests: Sequence[Mapping[str, Any]], machines: Sequence[Mapping[str, str]]
) -> dict[str, list[str]]:
    """Return the names of pending requests that are right, and what is wrong with each of the others.

    Args:
        requests: CertificateSigningRequests, as the API has them.
        machines: name and address of each, and its ipv6_address where the node has it, too.
    """
    addresses = {one["name"]: {one["address"], one.get("ipv6_address", one["address"])} for one in machines}
    judged: dict[str, list[str]] = {"right": [], "wrong": []}
    for request in (each for each in requests if not each.get("status", {}).get("conditions")):
        name, spec = str(request["metadata"]["name"]), request["spec"]
        if mistakes := list(_mistakes(spec, addresses)):
            judged["wrong"].append(f"{name} of {spec['username']} is not approved: {', '.join(mistakes)}")
        else:
            judged["right"].append(name)
    return judged


def _mistakes(spec: Mapping[str, Any], addresses: Mapping[str, set[str]]) -> Iterator[str]:
    user, usages = str(spec["username"]), set(spec.get("usages") or [])
    node = user.removeprefix(USER)
    if spec["signerName"] != SIGNER:
        yield f"its signer is {spec['signerName']}"
    if not user.startswith(USER) or GROUP not in (spec.get("groups") or []):
        yield "it is not of a kubelet"
        return
    if node not in addresses:
        yield f"{node} is not a machine of the inventory"
        return
    if SERVER not in usages or not usages <= USAGES:
        yield f"it is for {', '.join(sorted(usages))}"
    try:
        request = x509.load_pem_x509_csr(base64.b64decode(spec["request"]))
        yield from _of_request(request, user, node, addresses[node])
    except ValueError as error:
        yield f"it cannot be read ({error})"


def _of_request(request: x509.CertificateSigningRequest, user: str, node: str, addresses: set[str]) -> Iterator[str]:
    if not request.is_signature_valid:
        yield "its signature is wrong"
    subject = sorted((str(part.rfc4514_attribute_name), str(part.value)) for part in request.subject)
    if subject != [("CN", user), ("O", GROUP)]:
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
        wanted = {node} if isinstance(name, x509.DNSName) else addresses
        if not isinstance(name, x509.DNSName | x509.IPAddress) or str(name.value) not in wanted:
            yield f"it names {name.value}, which is not {node} or its address {' or '.join(sorted(addresses))}"


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"judged_requests": judged_requests}

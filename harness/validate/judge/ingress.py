"""What an ingress controller must do with pages that are asked for outside of the cluster, at every node.

An answer of another backend, a refusal and silence are told apart. Does not cover what becomes of requests while the
controller of a node starts anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from cryptography import x509

from harness.validate.facts.ingress_cases import NOT_FOUND, Page, Pages, Wanted
from harness.validate.findings import Mismatch, differs
from harness.validate.remote.web import WebAnswer

Ask = Callable[[str, Page], WebAnswer]
OK = 200


def misrouted(pages: Pages, addresses: Mapping[str, str], ask: Ask) -> list[Mismatch]:
    """Ask every node for every page; return what is answered otherwise.

    Args:
        addresses: of the nodes by name.

    A node that answers nothing is asked no more, since each further try would cost seconds.
    """
    found = differs("the check", "any page and node", True, bool(pages and addresses))
    for node, address in addresses.items():
        for page, wanted in pages.items():
            answer = ask(address, page)
            if said := _otherwise(answer, wanted):
                found.append(Mismatch(f"outside -> {node} ({address}), {page}", _named(wanted), said))
            if answer.error:
                break
    return found


def foreign_certificates(certificates: Mapping[str, bytes], addresses: Mapping[str, str], ask: Ask) -> list[Mismatch]:
    """Return the nodes that show another certificate for a host than the one in its Secret (PEM, by host)."""
    found = differs("the check", "any certificate and node", True, bool(certificates and addresses))
    for node, address in addresses.items():
        for host, pem in certificates.items():
            wanted = x509.load_pem_x509_certificate(pem)
            answer = ask(address, Page(host, "/", secure=True))
            shown = x509.load_der_x509_certificate(answer.certificate) if answer.certificate else None
            if shown != wanted:
                said = _described(shown) if shown is not None else answer.error or "no certificate"
                where = f"outside -> {node} ({address}), TLS of {host}"
                found.append(Mismatch(where, f"the certificate in its Secret, {_described(wanted)}", said))
            if answer.error:
                break
    return found


def wrong_statuses(
    shown: Mapping[str, list[str]], served: Mapping[str, Page], others: Iterable[str], ask: Ask
) -> list[Mismatch]:
    """Return the Ingresses whose status shows no address, or one that does not serve it, and others that show one.

    Args:
        shown: by Ingress, as the API has it.
        served: a page of each Ingress that is served. Any answer of the controller's but 404 proves the address.
        others: Ingresses that nobody serves.
    """
    found = differs("the check", "any Ingress that is served", True, bool(served))
    for name, page in served.items():
        addresses = shown.get(name) or []
        if not addresses:
            found.append(Mismatch(f"Ingress {name}", "an address in its status", "none"))
        for address in addresses:
            answer = ask(address, page)
            if answer.error or answer.status == NOT_FOUND:
                said = answer.error or f"{answer.status}: {answer.text[:200]}"
                found.append(Mismatch(f"Ingress {name}, {page} at {address} of its status", "the page", said))
    for name in others:
        found += differs(f"Ingress {name} of another class", "addresses in its status", [], shown.get(name) or [])
    return found


def _otherwise(answer: WebAnswer, wanted: Wanted) -> str:
    """Return what came in place of what is wanted; nothing if that came."""
    if answer.error:
        return answer.error
    right = (answer.status, answer.text) == (OK, wanted) if isinstance(wanted, str) else answer.status == wanted
    return "" if right else f"{answer.status}: {answer.text[:200]}"


def _named(wanted: Wanted) -> str:
    return f"200: {wanted}" if isinstance(wanted, str) else str(wanted)


def _described(certificate: x509.Certificate) -> str:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        said = ", ".join(names.get_values_for_type(x509.DNSName))
    except x509.ExtensionNotFound:
        said = certificate.subject.rfc4514_string()
    return f"of {said}, serial {certificate.serial_number:x}"

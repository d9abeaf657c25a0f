"""Ingress: the page that each Ingress must lead to, the objects of checks, and what the ingress controller answers.

A path of type Exact and a shorter Prefix of the same host do not meet here: Traefik prefers the longer rule, which is
the one of the Prefix, where the API prefers the Exact one.

Pages are asked for outside of the cluster, at every node. An answer of another backend, a refusal and silence are told
apart. Does not cover what becomes of requests while the controller of a node starts anew.
"""

from __future__ import annotations

import socket
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException

from cryptography import x509

from harness.kube import Cluster
from harness.kube.resources import INGRESS, INGRESS_CLASS, NAMESPACE, POD, SECRET, SERVICE
from harness.kube.serving import begun
from harness.spec.models import Timeouts
from harness.until import Deadline, NotYet, until
from harness.validate.facts.cluster import Json
from harness.validate.findings import Mismatch, differs
from harness.validate.pods import (
    HTTP_PORT,
    INTERVAL,
    container,
    describe_pods,
    ensure_namespace,
    wait_for_service_account,
    wait_until_gone,
)

CLASS, OTHER_CLASS = "traefik", "nobodys"
RED, BLUE = "red", "blue"  # backends: pods that answer with their name, and the Services in front of them
IDLE = "idle"  # a Service that no pod is behind
PREFIX, EXACT = "Prefix", "Exact"
NOT_FOUND, UNAVAILABLE = 404, 503
FIRST, SECOND, PATHS, EMPTY, FOREIGN, CLASSLESS, UNKNOWN = (
    f"{name}.ingress.example" for name in ("first", "second", "paths", "empty", "foreign", "classless", "unknown")
)


@dataclass(frozen=True, order=True)
class Page:
    """What is asked for: a path of a host, at the port of TLS if `secure`."""

    host: str
    path: str
    secure: bool = False

    def __str__(self) -> str:
        """Return it as an address."""
        return f"http{'s' if self.secure else ''}://{self.host}{self.path}"


Wanted = str | int  # the backend whose answer it is, or the status
Pages = Mapping[Page, Wanted]


@dataclass(frozen=True)
class PathRule:
    """One path of a host, and the Service that it leads to."""

    host: str
    path: str
    service: str
    kind: str = PREFIX


@dataclass(frozen=True)
class Given:
    """An Ingress: its rules, its class (none: it names none), and the Secret of each host that has TLS."""

    name: str
    rules: Sequence[PathRule]
    class_name: str | None = CLASS
    secrets: Mapping[str, str] = field(default_factory=dict)


HOSTS = Given(
    "hosts",
    [PathRule(FIRST, "/", RED), PathRule(SECOND, "/", BLUE)],
    secrets={FIRST: "first-certificate", SECOND: "second-certificate"},
)
INGRESSES: Sequence[Given] = (
    HOSTS,
    Given(
        "paths",
        [
            PathRule(PATHS, "/docs", RED),
            PathRule(PATHS, "/docs/deep", BLUE),
            PathRule(PATHS, "/only", BLUE, EXACT),
        ],
    ),
    Given("empty", [PathRule(EMPTY, "/", IDLE)]),
    Given("foreign", [PathRule(FOREIGN, "/", RED)], class_name=OTHER_CLASS),
    Given("classless", [PathRule(CLASSLESS, "/", RED)], class_name=None),
)
SWAPPED = Given("hosts", [PathRule(FIRST, "/", BLUE), PathRule(SECOND, "/", BLUE)], secrets=HOSTS.secrets)
SHORTENED = Given("hosts", [PathRule(SECOND, "/", BLUE)], secrets=HOSTS.secrets)

HOST_PAGES: Pages = {
    Page(FIRST, "/"): RED,
    Page(SECOND, "/"): BLUE,
    Page(SECOND, "/any/where?of=it"): BLUE,
    Page(UNKNOWN, "/"): NOT_FOUND,
}
PATH_PAGES: Pages = {
    Page(PATHS, "/docs"): RED,
    Page(PATHS, "/docs/"): RED,
    Page(PATHS, "/docs/other"): RED,
    Page(PATHS, "/docs/deeper"): RED,
    Page(PATHS, "/docs/deep"): BLUE,  # the longest prefix
    Page(PATHS, "/docs/deep/down"): BLUE,
    Page(PATHS, "/docsx"): NOT_FOUND,  # prefixes end where elements of a path end
    Page(PATHS, "/Docs"): NOT_FOUND,
    Page(PATHS, "/only"): BLUE,
    Page(PATHS, "/only/"): NOT_FOUND,
    Page(PATHS, "/only/more"): NOT_FOUND,
    Page(PATHS, "/"): NOT_FOUND,
}
SECURE_PAGES: Pages = {Page(FIRST, "/", secure=True): RED, Page(SECOND, "/", secure=True): BLUE}
EMPTY_PAGES: Pages = {Page(EMPTY, "/"): UNAVAILABLE}


def class_pages(*, default: bool) -> Pages:
    """Return what becomes of hosts whose Ingress is of another class, or names none: `default` says who gets that."""
    return {Page(FIRST, "/"): RED, Page(FOREIGN, "/"): NOT_FOUND, Page(CLASSLESS, "/"): RED if default else NOT_FOUND}


# What the Ingress `hosts` becomes, one after the other (None: it is taken away), and what its pages are then.
CHANGES: Sequence[tuple[str, Given | None, Pages]] = (
    ("a rule leads to another Service", SWAPPED, {Page(FIRST, "/"): BLUE, Page(SECOND, "/"): BLUE}),
    ("a rule is gone", SHORTENED, {Page(FIRST, "/"): NOT_FOUND, Page(SECOND, "/"): BLUE}),
    ("the Ingress is gone", None, {Page(FIRST, "/"): NOT_FOUND, Page(SECOND, "/"): NOT_FOUND}),
    ("the Ingress is back", HOSTS, HOST_PAGES),
)
NAME = "vmatrix-ingress"  # the namespace
NOBODY = "vmatrix.dev/nobody"  # the controller of the other class: there is none
SERVICE_PORT = 80


@dataclass
class PublishedIngresses:
    """What a guest publishes. certificates: what is in the Secret of each host, as PEM."""

    api: Cluster
    certificates: dict[str, bytes] = field(default_factory=dict)

    def give(self, desired: Given) -> None:
        """Let an Ingress be as given, whether it is there or not."""
        if self.api.get(INGRESS, desired.name, NAME) is None:
            self.api.create(INGRESS, _ingress(desired))
        else:
            self.api.replace(INGRESS, _ingress(desired))

    def take(self, name: str) -> None:
        """Take an Ingress away."""
        self.api.delete(INGRESS, name, NAME)

    def certify(self, host: str) -> None:
        """Make a new certificate for a host, and put it into the host's Secret."""
        made = begun("vmatrix ingress checks", [host], datetime.now(UTC))
        body = _secret(HOSTS.secrets[host], made.certificate, made.key)
        if self.api.get(SECRET, HOSTS.secrets[host], NAME) is None:
            self.api.create(SECRET, body)
        else:
            self.api.replace(SECRET, body)
        self.certificates[host] = made.certificate

    def addresses(self) -> Mapping[str, list[str]]:
        """Return what the status of each Ingress shows: addresses and names."""
        return {ingress["metadata"]["name"]: _shown(ingress) for ingress in self.api.list(INGRESS, NAME).items}

    def stand_behind(self, service: str, pod: str) -> None:
        """Let a pod be the one behind a Service."""
        self.api.merge(SERVICE, service, {"spec": {"selector": {"app": pod}}}, NAME)


def place(api: Cluster, nodes: tuple[str, ...], image: str, timeouts: Timeouts) -> PublishedIngresses:
    """Create everything; wait for the pods to be ready.

    Raises:
        TimedOut: with the pods that are not ready, and their last events.
    """
    deadline = Deadline.after(timeouts.probe_pods)
    remove(api, deadline)  # of an earlier or interrupted run
    ensure_namespace(api, NAME)
    wait_for_service_account(api, NAME, deadline)
    api.create(INGRESS_CLASS, _other_class())
    for pod, node in ((RED, nodes[0]), (BLUE, nodes[-1])):
        api.create(POD, _pod(pod, node, image))
    for service in (RED, BLUE, IDLE):
        api.create(SERVICE, _service(service))
    published = PublishedIngresses(api)
    for host in HOSTS.secrets:
        published.certify(host)
    for ingress in INGRESSES:
        published.give(ingress)
    until(
        lambda: _ready(api),
        deadline=deadline,
        what="the pods of the checks of Ingresses to be ready",
        describe=lambda: describe_pods(api, NAME),
        interval=INTERVAL,
    )
    return published


def remove(api: Cluster, deadline: Deadline) -> None:
    """Remove the other class, and the namespace with all that is in it; wait until it is gone. Idempotent."""
    api.delete(INGRESS_CLASS, OTHER_CLASS)
    if api.get(NAMESPACE, NAME) is not None:
        api.delete(NAMESPACE, NAME)
        wait_until_gone(api, NAMESPACE, NAME, None, deadline)


def _ready(api: Cluster) -> bool | NotYet:
    missing = {RED, BLUE} - {pod["metadata"]["name"] for pod in api.list(POD, NAME).items if _is_ready(pod)}
    return NotYet(f"not ready: {', '.join(sorted(missing))}") if missing else True


def _is_ready(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _shown(ingress: Json) -> list[str]:
    there = ingress.get("status", {}).get("loadBalancer", {}).get("ingress") or ()
    return [str(point.get("ip") or point.get("hostname") or "") for point in there]


def _pod(name: str, node: str, image: str) -> Json:
    """Return a pod that answers every path with its name."""
    readiness = {"httpGet": {"path": "/", "port": HTTP_PORT}, "periodSeconds": 1}
    arguments = ["serve-hostname", f"--port={HTTP_PORT}"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAME, "labels": {"app": name}},
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "tolerations": [{"operator": "Exists"}],
            "containers": [container("web", image, args=arguments, readinessProbe=readiness)],
        },
    }


def _service(name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": NAME},
        "spec": {"selector": {"app": name}, "ports": [{"port": SERVICE_PORT, "targetPort": HTTP_PORT}]},
    }


def _secret(name: str, certificate: bytes, key: bytes) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": NAME},
        "type": "kubernetes.io/tls",
        "data": {"tls.crt": b64encode(certificate).decode(), "tls.key": b64encode(key).decode()},
    }


def _other_class() -> Json:
    metadata = {"name": OTHER_CLASS}
    spec = {"controller": NOBODY}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": metadata, "spec": spec}


def _ingress(ingress: Given) -> Json:
    hosts = dict.fromkeys(rule.host for rule in ingress.rules)
    paths = {host: [rule for rule in ingress.rules if rule.host == host] for host in hosts}
    spec: Json = {
        "rules": [
            {
                "host": host,
                "http": {
                    "paths": [
                        {
                            "path": rule.path,
                            "pathType": rule.kind,
                            "backend": {"service": {"name": rule.service, "port": {"number": SERVICE_PORT}}},
                        }
                        for rule in rules
                    ]
                },
            }
            for host, rules in paths.items()
        ],
        "tls": [{"hosts": [host], "secretName": name} for host, name in ingress.secrets.items()],
    }
    if ingress.class_name is not None:
        spec["ingressClassName"] = ingress.class_name
    metadata = {"name": ingress.name, "namespace": NAME}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata, "spec": spec}


HTTP, HTTPS = 80, 443


@dataclass(frozen=True)
class WebAnswer:
    """What a server answered, and the certificate that it showed (DER); `error` where it did not answer.

    error: says whether nobody listens (refused), nothing came back, or it was cut off.
    """

    status: int = 0
    text: str = ""
    certificate: bytes = b""
    error: str = ""


def get_page(address: str, page: Page, seconds: float, port: int = 0) -> WebAnswer:
    """Ask an address for a page on a connection of its own. Certificates are taken as they are, to be judged.

    Args:
        port: another than the usual one of HTTP or HTTPS.
    """
    port = port or (HTTPS if page.secure else HTTP)
    try:
        with socket.create_connection((address, port), timeout=seconds) as plain:
            if not page.secure:
                return _asked(plain, page, b"")
            with _undemanding().wrap_socket(plain, server_hostname=page.host) as wrapped:
                return _asked(wrapped, page, wrapped.getpeercert(binary_form=True) or b"")
    except ConnectionRefusedError:
        return WebAnswer(error=f"port {port} is refused")
    except TimeoutError:
        return WebAnswer(error=f"nothing came back in {seconds:g} s")
    except (OSError, HTTPException) as error:
        return WebAnswer(error=f"cut off: {error or type(error).__name__}")


def _asked(connection: socket.socket, page: Page, certificate: bytes) -> WebAnswer:
    client = HTTPConnection(page.host)
    client.sock = connection
    client.request("GET", page.path, headers={"Connection": "close"})
    answer = client.getresponse()
    return WebAnswer(answer.status, answer.read().decode(errors="replace").strip(), certificate)


def _undemanding() -> ssl.SSLContext:
    """Return a context that believes every certificate."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


Ask = Callable[[str, Page], WebAnswer]
OK = 200


def misrouted(pages: Pages, addresses: Mapping[str, str], ask: Ask) -> list[Mismatch]:
    """Ask every node for every page; return what is answered otherwise.

    Args:
        addresses: of the nodes by name.

    A node that answers nothing is asked no more, since each further try would cost seconds.
    """
    mismatches = differs("the check", "any page and node", True, bool(pages and addresses))
    for node, address in addresses.items():
        for page, page_text in pages.items():
            answer = ask(address, page)
            if observed := _otherwise(answer, page_text):
                mismatches.append(Mismatch(f"outside -> {node} ({address}), {page}", _named(page_text), observed))
            if answer.error:
                break
    return mismatches


def foreign_certificates(certificates: Mapping[str, bytes], addresses: Mapping[str, str], ask: Ask) -> list[Mismatch]:
    """Return the nodes that show another certificate for a host than the one in its Secret (PEM, by host)."""
    mismatches = differs("the check", "any certificate and node", True, bool(certificates and addresses))
    for node, address in addresses.items():
        for host, pem in certificates.items():
            certificate = x509.load_pem_x509_certificate(pem)
            answer = ask(address, Page(host, "/", secure=True))
            shown = x509.load_der_x509_certificate(answer.certificate) if answer.certificate else None
            if shown != certificate:
                observed = _described(shown) if shown is not None else answer.error or "no certificate"
                where = f"outside -> {node} ({address}), TLS of {host}"
                mismatches.append(
                    Mismatch(where, f"the certificate in its Secret, {_described(certificate)}", observed)
                )
            if answer.error:
                break
    return mismatches


def wrong_statuses(
    shown: Mapping[str, list[str]], served: Mapping[str, Page], others: Iterable[str], ask: Ask
) -> list[Mismatch]:
    """Return the Ingresses whose status shows no address, or one that does not serve it, and others that show one.

    Args:
        shown: by Ingress, as the API has it.
        served: a page of each Ingress that is served. Any answer of the controller's but 404 proves the address.
        others: Ingresses that nobody serves.
    """
    mismatches = differs("the check", "any Ingress that is served", True, bool(served))
    for name, page in served.items():
        addresses = shown.get(name) or []
        if not addresses:
            mismatches.append(Mismatch(f"Ingress {name}", "an address in its status", "none"))
        for address in addresses:
            answer = ask(address, page)
            if answer.error or answer.status == NOT_FOUND:
                observed = answer.error or f"{answer.status}: {answer.text[:200]}"
                mismatches.append(Mismatch(f"Ingress {name}, {page} at {address} of its status", "the page", observed))
    for name in others:
        mismatches += differs(f"Ingress {name} of another class", "addresses in its status", [], shown.get(name) or [])
    return mismatches


def _otherwise(answer: WebAnswer, reply: Wanted) -> str:
    """Return what came in place of what is wanted; nothing if that came."""
    if answer.error:
        return answer.error
    right = (answer.status, answer.text) == (OK, reply) if isinstance(reply, str) else answer.status == reply
    return "" if right else f"{answer.status}: {answer.text[:200]}"


def _named(reply: Wanted) -> str:
    return f"200: {reply}" if isinstance(reply, str) else str(reply)


def _described(certificate: x509.Certificate) -> str:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        subject = ", ".join(names.get_values_for_type(x509.DNSName))
    except x509.ExtensionNotFound:
        subject = certificate.subject.rfc4514_string()
    return f"of {subject}, serial {certificate.serial_number:x}"

"""Authentication and authorization of requests: the API server in front says who asks, and is asked whether they may.

The API server proves itself by a certificate of the request-header authority, which every cluster publishes in a
ConfigMap; only then are its headers believed.
https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/#kubernetes-apiserver-client-authentication
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from multidict import CIMultiDictProxy

from harness.errors import InfraError
from harness.kube.access import allowed
from harness.kube.client import Cluster
from harness.kube.resources import CONFIG_MAP

NAMESPACE, NAME = "kube-system", "extension-apiserver-authentication"


@dataclass(frozen=True)
class Trust:
    """Whose word counts about who asks.

    authority: PEM certificates.  names: the common names that count; any without one.
    user, group, extra: the headers with the asker's name and groups, and the prefixes of those with more.
    """

    authority: str
    names: frozenset[str]
    user: tuple[str, ...]
    group: tuple[str, ...]
    extra: tuple[str, ...]


@dataclass(frozen=True)
class Asker:
    """The user in whose name the API server asks."""

    user: str
    groups: tuple[str, ...]
    extra: Mapping[str, tuple[str, ...]]


def trust_of(cluster: Cluster) -> Trust:
    """Read whose word counts in a cluster.

    Raises:
        InfraError: the cluster's API server has no request-header authority: it cannot aggregate APIs.
    """
    found = cluster.get(CONFIG_MAP, NAME, NAMESPACE) or {}
    data: Mapping[str, str] = found.get("data") or {}
    authority = data.get("requestheader-client-ca-file")
    if not authority:
        raise InfraError(
            f"ConfigMap {NAMESPACE}/{NAME} names no request-header authority",
            hint="the API server needs --requestheader-client-ca-file and --proxy-client-cert-file to aggregate APIs",
        )
    return Trust(
        authority,
        frozenset(_listed(data, "requestheader-allowed-names")),
        tuple(_listed(data, "requestheader-username-headers")),
        tuple(_listed(data, "requestheader-group-headers")),
        tuple(_listed(data, "requestheader-extra-headers-prefix")),
    )


def _listed(data: Mapping[str, str], key: str) -> Sequence[str]:
    found: Sequence[str] = json.loads(data.get(key) or "[]")
    return found


def tls(trust: Trust, certificate: Path, key: Path) -> ssl.SSLContext:
    """Return how to speak TLS: a client's certificate is asked for, and refused unless the authority signed it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=trust.authority)
    return context


def asker_of(trust: Trust, peer: Mapping[str, Any] | None, headers: CIMultiDictProxy[str]) -> Asker | None:
    """Return who asks; None when nobody whose word counts says so.

    Args:
        peer: the client's verified certificate, as ssl.SSLSocket.getpeercert() returns it.
    """
    subject = (peer or {}).get("subject", ())
    common_names = {value for part in subject for key, value in part if key == "commonName"}
    if not peer or (trust.names and not trust.names & common_names):
        return None
    user = next((headers[name] for name in trust.user if name in headers), None)
    if user is None:
        return None
    groups = next((tuple(headers.getall(name)) for name in trust.group if name in headers), ())
    extra = {
        unquote(header[len(prefix) :]): tuple(headers.getall(header))
        for header in {name.lower() for name in headers}
        for prefix in trust.extra
        if header.startswith(prefix.lower())
    }
    return Asker(user, groups, extra)


def may(cluster: Cluster, asker: Asker, attributes: Mapping[str, str]) -> tuple[bool, str]:
    """Ask the API whether somebody may do something; return its answer and its reason."""
    extra = {key: list(values) for key, values in asker.extra.items()}
    return allowed(cluster, {"user": asker.user, "groups": list(asker.groups), "extra": extra}, attributes)

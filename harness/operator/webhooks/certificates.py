"""The webhooks' certificates: in a Secret that all managers share, and believed by the webhook configurations.

One manager writes, the others read what it wrote: a Secret that somebody else has changed meanwhile is read again.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.objects import dig
from harness.kube.resources import MUTATING_WEBHOOK, SECRET, VALIDATING_WEBHOOK, Resource
from harness.kube.serving import ServingPair, begun, renewed
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.webhooks.configurations import SECRET_NAME, configuration_name, service_host

FILES = {"bundle": "ca.crt", "authority_key": "ca.key", "certificate": "tls.crt", "key": "tls.key"}
STEPS = 5  # a new authority, its being believed, and what it signs are one after the other; and others write, too


@dataclass(frozen=True)
class Certificates:
    """Keeps the Secret and what the configurations believe. clock: the present moment."""

    cluster: Cluster
    namespace: str
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def look(self) -> ServingPair:
        """Return what to serve with, after what is due was made, renewed and handed to the configurations.

        Raises:
            ApiFailure, Unreachable: the API refuses or does not answer.
        """
        for _ in range(STEPS):
            found = self.cluster.get(SECRET, SECRET_NAME, self.namespace)
            known = read(found)
            configurations = list(self._configurations())
            names = {service_host(self.namespace), *_hosts(configurations)}
            believed = known is not None and all(_believes(one, known.bundle) for _, one in configurations)
            wanted = self._wanted(known, names, believed=believed)
            try:
                if wanted != known:
                    self._keep(found, wanted)
                elif believed:
                    return wanted
                for resource, one in configurations:
                    self._tell(resource, one, wanted.bundle)
            except ApiFailure as failure:
                if not failure.conflict and not failure.exists:
                    raise
        raise ApiFailure(409, "Conflict", f"Secret {SECRET_NAME} is changed all the time", [], request="PUT")

    def _wanted(self, known: ServingPair | None, names: set[str], *, believed: bool) -> ServingPair:
        now = self.clock()
        try:
            return renewed(known, names, now, believed=believed) if known else begun(SECRET_NAME, names, now)
        except ValueError:  # somebody wrote something else into the Secret
            return begun(SECRET_NAME, names, now)

    def _keep(self, found: Json | None, wanted: ServingPair) -> None:
        data = {file: base64.b64encode(getattr(wanted, field)).decode() for field, file in FILES.items()}
        if found is None:
            body = SECRET.manifest(SECRET_NAME, self.namespace, labels={LABEL_MANAGED: MANAGED_BY}, data=data)
            self.cluster.create(SECRET, body)
        else:
            self.cluster.replace(SECRET, {**found, "data": {**(found.get("data") or {}), **data}})

    def _configurations(self) -> Iterator[tuple[Resource, Json]]:
        for resource in (MUTATING_WEBHOOK, VALIDATING_WEBHOOK):
            found = self.cluster.get(resource, configuration_name(self.namespace))
            if found is not None:
                yield resource, found

    def _tell(self, resource: Resource, found: Json, bundle: bytes) -> None:
        """Have a configuration believe the authorities, where it does not."""
        if not _believes(found, bundle):
            encoded = base64.b64encode(bundle).decode()
            hooks = [{**one, "clientConfig": {**one["clientConfig"], "caBundle": encoded}} for one in found["webhooks"]]
            self.cluster.replace(resource, {**found, "webhooks": hooks})


def read(secret: Json | None) -> ServingPair | None:
    """Return what a Secret has; None where it lacks some of it."""
    data = dig(secret, "data") or {}
    try:
        found = {field: base64.b64decode(data.get(file, ""), validate=True) for field, file in FILES.items()}
    except binascii.Error:
        return None
    return ServingPair(**found) if all(found.values()) else None


def _believes(configuration: Json, bundle: bytes) -> bool:
    told = {dig(one, "clientConfig", "caBundle") for one in configuration.get("webhooks") or ()}
    return told <= {base64.b64encode(bundle).decode()}


def _hosts(configurations: list[tuple[Resource, Json]]) -> Iterator[str]:
    """Yield the hosts by which configurations call the server, where that is by URL."""
    for _, found in configurations:
        for one in found.get("webhooks") or ():
            host = urlsplit(dig(one, "clientConfig", "url") or "").hostname
            if host:
                yield host

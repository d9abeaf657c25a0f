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
            secret = self.cluster.get(SECRET, SECRET_NAME, self.namespace)
            known = read(secret)
            configurations = list(self._configurations())
            names = {service_host(self.namespace), *_hosts(configurations)}
            believed = known is not None and all(
                _believes(configuration, known.bundle) for _, configuration in configurations
            )
            pair = self._wanted(known, names, believed=believed)
            try:
                if pair != known:
                    self._keep(secret, pair)
                elif believed:
                    return pair
                for resource, configuration in configurations:
                    self._tell(resource, configuration, pair.bundle)
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

    def _keep(self, secret: Json | None, pair: ServingPair) -> None:
        data = {file: base64.b64encode(getattr(pair, field)).decode() for field, file in FILES.items()}
        if secret is None:
            body = SECRET.manifest(SECRET_NAME, self.namespace, labels={LABEL_MANAGED: MANAGED_BY}, data=data)
            self.cluster.create(SECRET, body)
        else:
            self.cluster.replace(SECRET, {**secret, "data": {**(secret.get("data") or {}), **data}})

    def _configurations(self) -> Iterator[tuple[Resource, Json]]:
        for resource in (MUTATING_WEBHOOK, VALIDATING_WEBHOOK):
            configuration = self.cluster.get(resource, configuration_name(self.namespace))
            if configuration is not None:
                yield resource, configuration

    def _tell(self, resource: Resource, configuration: Json, bundle: bytes) -> None:
        """Have a configuration believe the authorities, where it does not."""
        if not _believes(configuration, bundle):
            encoded = base64.b64encode(bundle).decode()
            hooks = [
                {**webhook, "clientConfig": {**webhook["clientConfig"], "caBundle": encoded}}
                for webhook in configuration["webhooks"]
            ]
            self.cluster.replace(resource, {**configuration, "webhooks": hooks})


def read(secret: Json | None) -> ServingPair | None:
    """Return what a Secret has; None where it lacks some of it."""
    data = dig(secret, "data") or {}
    try:
        fields = {field: base64.b64decode(data.get(file, ""), validate=True) for field, file in FILES.items()}
    except binascii.Error:
        return None
    return ServingPair(**fields) if all(fields.values()) else None


def _believes(configuration: Json, bundle: bytes) -> bool:
    told = {dig(webhook, "clientConfig", "caBundle") for webhook in configuration.get("webhooks") or ()}
    return told <= {base64.b64encode(bundle).decode()}


def _hosts(configurations: list[tuple[Resource, Json]]) -> Iterator[str]:
    """Yield the hosts by which configurations call the server, where that is by URL."""
    for _, configuration in configurations:
        for webhook in configuration.get("webhooks") or ():
            host = urlsplit(dig(webhook, "clientConfig", "url") or "").hostname
            if host:
                yield host

"""Authorities: the CAs of each cluster in Secrets, made before its first deployment, or found there.

Secrets are not watched: a namespace has many that are none of ours. So they are looked at from time to time.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from pydantic import ValidationError

from harness.kube.client import ApiFailure, Json, ServedKinds
from harness.kube.informer import Key, labels_of
from harness.kube.objects import controller_of, deleting, secret_content, secret_data
from harness.kube.reconcile import Controller, follow
from harness.kube.resources import CERTIFICATE_REQUEST, SECRET
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.cluster import AuthorityState, DeclaredCluster
from harness.operator.api.clusterdeployment import ClusterDeployment, IssuerRef
from harness.operator.api.resources import AUTHORITY_OF, CLUSTER, CLUSTER_LABEL
from harness.operator.context import OperatorContext
from harness.operator.controllers.cluster_view import owned_by
from harness.operator.controllers.declarations import Declarations, owner_of
from harness.operator.controllers.guest import NAME_LABEL, SECRET_TYPE
from harness.operator.decide.authority import (
    CERTIFICATE,
    KEY,
    Authority,
    AuthorityRefused,
    authorities_of,
    is_wanted,
    judged,
    lifetime_of,
    made,
    outlives,
    secret_of,
    state_of,
    unchanged,
)
from harness.operator.decide.etcdclusters import WRITTEN
from harness.operator.decide.issuers import NO_CERT_MANAGER, REFUSED, WAITING, asks_for, issued, issuer_of, request_of

COMPONENT = "authority"
REFUSED_SECONDS = 30.0  # pacing: somebody is about to put something else into a Secret
ISSUER_SECONDS = 2.0  # pacing: an issuer that signs by itself takes a second or two
AGAIN_SECONDS = 600.0  # pacing: of what is well; a CA that is gone or that expires is known of by then


class AuthorityController:
    """Makes the Secrets, and says in each Cluster's status what they have."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._served = ServedKinds(context.cluster)
        self._events = context.events
        self._deployments = Declarations(context.informers)
        self._clusters = context.informers.of(CLUSTER)
        self.controller = Controller("authority", self.reconcile, workers=1)
        follow(self._deployments, self.controller.queue)
        follow(self._clusters, self.controller.queue)

    def reconcile(self, key: Key) -> float | None:
        """Look at one cluster; return the seconds until the next look, None where only a change matters."""
        deployment, cluster = self._deployments.get(*key), self._clusters.get(*key)
        if deployment is None or cluster is None or deleting(deployment) or not owned_by(cluster, deployment):
            return None
        try:
            plain = {name: value for name, value in deployment.items() if name != WRITTEN}
            wish = ClusterDeployment.model_validate(plain)
        except ValidationError:
            return None
        status = DeclaredCluster.model_validate(cluster).status
        if not is_wanted(wish) or (status.authority is None and status.sequence):
            return None
        state = self._look(wish, deployment, status.authority, begun=status.sequence > 0)
        if state != status.authority:
            told = state.model_dump(mode="json", by_alias=True, exclude_none=True)
            self._clusters.merge_status(cluster, {"authority": told})
            if state.message and state.reason != WAITING:
                self._events.warning(deployment, state.reason, state.message, component=COMPONENT)
        if state.usable:
            return AGAIN_SECONDS
        return ISSUER_SECONDS if state.reason == WAITING else REFUSED_SECONDS

    def _look(
        self, wish: ClusterDeployment, deployment: Json, before: AuthorityState | None, *, begun: bool
    ) -> AuthorityState:
        """Return what the Secrets of a cluster have, after those that it lacks were made.

        Args:
            before: what stood in the status.  begun: whether machines may have been given it.
        """
        now, parts, refused = datetime.now(UTC), [], list[AuthorityRefused]()
        known = {part_before.name for part_before in before.parts} if before is not None else set()
        for authority in authorities_of(wish):
            try:
                data = self._content(authority, wish, deployment, begun=begun, lost=begun and authority.name in known)
                part = judged(authority, secret_of(wish, authority)[0], data, now)
                parts.append(unchanged(part, before) if begun else part)
            except AuthorityRefused as error:
                refused.append(error)
        return state_of(parts, refused[0] if refused else None, before, now)

    def _content(
        self, authority: Authority, wish: ClusterDeployment, deployment: Json, *, begun: bool, lost: bool
    ) -> Mapping[str, bytes]:
        """Return what a Secret has, which is made if it is to be.

        Args:
            begun: whether machines may have it.  lost: it may not be made, because machines have another one.

        Raises:
            AuthorityRefused: it is not there, or another object's.
        """
        (name, is_named), namespace = secret_of(wish, authority), wish.metadata.namespace
        secret = self._cluster.get(SECRET, name, namespace)
        if secret is None and is_named:
            remedy = "create it, with tls.crt and tls.key"
            raise AuthorityRefused("SecretMissing", f"there is no Secret {name} in namespace {namespace}: {remedy}")
        if secret is None and lost:
            remedy = "put a copy of it back; machines that have its key have the same in /etc/kubernetes/pki"
            raise AuthorityRefused(
                "SecretMissing", f"Secret {name} is gone, which the cluster was begun with: {remedy}"
            )
        if secret is None:
            return self._make(authority, name, wish, deployment)
        if not is_named:
            self._own(secret, wish, deployment, begun=begun)
        content = secret_content(secret)
        waits = CERTIFICATE not in content and KEY in content and labels_of(secret).get(LABEL_MANAGED) == MANAGED_BY
        if is_named or begun or not waits:
            return content
        return self._completed(authority, name, wish, deployment, content[KEY])

    def _completed(
        self, authority: Authority, name: str, wish: ClusterDeployment, deployment: Json, key: bytes
    ) -> Mapping[str, bytes]:
        """Return a Secret of ours that had a key alone, with the certificate that it was waiting for.

        Raises:
            AuthorityRefused: no issuer has signed it yet.
        """
        issuer = issuer_of(wish, authority)
        if issuer is not None:
            content = {KEY: key, CERTIFICATE: self._issued(authority, name, wish, deployment, issuer, key)}
        else:  # it was named when the key was made
            content = dict(made(authority, datetime.now(UTC), lifetime_of(wish)))
        self._cluster.merge(SECRET, name, {"data": secret_data(content)}, wish.metadata.namespace)
        return content

    def _issued(
        self, authority: Authority, name: str, wish: ClusterDeployment, deployment: Json, issuer: IssuerRef, key: bytes
    ) -> bytes:
        """Return what an issuer has signed for a key, after it was asked.

        Raises:
            AuthorityRefused: it was not signed.
        """
        kind = self._served.preferred(CERTIFICATE_REQUEST.group, CERTIFICATE_REQUEST.kind)
        if kind is None:
            said = f"the infra cluster has no kind {CERTIFICATE_REQUEST.kind} of {CERTIFICATE_REQUEST.group}"
            raise AuthorityRefused(NO_CERT_MANAGER, f"{said}: install cert-manager, or remove authority.issuerRef")
        wanted = request_of(wish, authority, issuer, name, key)
        wanted["metadata"] |= {"labels": _labels(wish), "ownerReferences": [owner_of(deployment)]}
        try:
            asked = self._cluster.get(kind, name, wish.metadata.namespace)
            owner = controller_of(asked) if asked is not None else None
            if asked is not None and (owner is None or owner.get("uid") != deployment["metadata"]["uid"]):
                remedy = "wait until it is deleted, or delete it"
                raise AuthorityRefused("RequestInUse", f"CertificateRequest {name} is of another object: {remedy}")
            if asked is not None and not asks_for(asked, wanted):
                self._cluster.delete(kind, name, wish.metadata.namespace)
                asked = None
            return issued(asked or self._cluster.create(kind, wanted), authority, key, datetime.now(UTC))
        except ApiFailure as failure:
            if not failure.refused:
                raise
            said = f"the infra cluster refuses CertificateRequest {name}: {failure.summary}"
            raise AuthorityRefused(REFUSED, said) from failure

    def _own(self, secret: Json, wish: ClusterDeployment, deployment: Json, *, begun: bool) -> None:
        """Have a Secret of ours go with its object, or outlive it.

        Raises:
            AuthorityRefused: it is another object's, or outlived one.
        """
        meta, uid = secret["metadata"], deployment["metadata"]["uid"]
        owner, outlived = controller_of(secret), (meta.get("annotations") or {}).get(AUTHORITY_OF)
        if owner is not None and owner.get("uid") != uid:
            message = f"Secret {meta['name']} belongs to another object, {owner.get('kind')} {owner.get('name')}"
            raise AuthorityRefused("SecretInUse", f"{message}: wait until it is deleted, or delete it")
        if owner is None and outlived not in (None, uid) and not begun:
            message = f"Secret {meta['name']} has the CA of machines that a deleted cluster of this name has left"
            remedy = f"delete it, or remove its annotation {AUTHORITY_OF} to begin this cluster with the same CA"
            raise AuthorityRefused("SecretInUse", f"{message}: {remedy}")
        if outlives(wish) == (owner is not None) and (owner is not None or outlived == uid):
            before = {"ownerReferences": None, "annotations": {AUTHORITY_OF: None}}
            patch = {"metadata": before | _ownership(wish, deployment)}
            self._cluster.merge(SECRET, meta["name"], patch, wish.metadata.namespace)

    def _make(self, authority: Authority, name: str, wish: ClusterDeployment, deployment: Json) -> Mapping[str, bytes]:
        namespace = wish.metadata.namespace
        content = made(authority, datetime.now(UTC), lifetime_of(wish))
        by_issuer = issuer_of(wish, authority) is not None
        kept = {KEY: content[KEY]} if by_issuer else content
        body = SECRET.manifest(name, namespace, labels=_labels(wish), type=SECRET_TYPE, data=secret_data(kept))
        body["metadata"].update(_ownership(wish, deployment))
        self._cluster.create(SECRET, body)
        return self._completed(authority, name, wish, deployment, content[KEY]) if by_issuer else content


def _labels(wish: ClusterDeployment) -> dict[str, str]:
    cluster = wish.metadata.name
    return {CLUSTER_LABEL: cluster, NAME_LABEL: cluster, LABEL_MANAGED: MANAGED_BY}


def _ownership(wish: ClusterDeployment, deployment: Json) -> Json:
    """Return what the metadata of a Secret says about whose it is."""
    if outlives(wish):
        return {"annotations": {AUTHORITY_OF: deployment["metadata"]["uid"]}}
    return {"ownerReferences": [owner_of(deployment)]}


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(AuthorityController(context).controller)

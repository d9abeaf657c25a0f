"""Clients of EtcdClusters: the prefix that each cluster has, its certificate in a Secret, and its leave.

One worker writes what a cluster has of an EtcdCluster into its Cluster's status, on which users of etcd follow. Secrets
are not watched: a namespace has many that are none of ours. So they are looked at from time to time.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID

from harness.kube.certificates import first, request, signed, signed_by
from harness.kube.client import Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import controller_of, deleting, dig, ensure, secret_content, secret_data, stamp
from harness.kube.reconcile import Controller, follow
from harness.kube.resources import SECRET
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.cluster import EtcdClientState, UnsettledState
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.resources import CLUSTER_LABEL
from harness.operator.context import OperatorContext
from harness.operator.controllers.cluster_view import ClusterLooks, Workable
from harness.operator.controllers.declarations import owner_of
from harness.operator.controllers.guest import SECRET_TYPE
from harness.operator.decide.authority import (
    AUTHORITIES,
    CERTIFICATE,
    KEY,
    AuthorityRefused,
    judged,
    signer_of,
)
from harness.operator.decide.due import Wait, WaitReason
from harness.operator.decide.etcdclients import EtcdAround, client_state, leaving_state, restored_by
from harness.operator.decide.etcdclusters import is_etcd

COMPONENT = "etcdclients"
CA = "ca.crt"
REFUSED_SECONDS = 30.0  # pacing: somebody is about to put something else into a Secret
AGAIN_SECONDS = 600.0  # pacing: of what is well; a certificate that is gone or that expires is known of by then
YEAR_HOURS = 8760  # as kubeadm's
RENEW_DAYS = 90  # before its end, as the playbooks; the operation that hands it out begins 30 days before
NEVER = "none"  # the EtcdCluster has restored nothing before
TROUBLE = ("NoEtcdCluster", "AnotherEtcdCluster", "PrefixTaken", "AuthorityUnusable", "CertificateRefused")
WENT_BACK = ("settings", "addons")  # what a cluster has of another time than its machines
AUTHORITY = next(authority for authority in AUTHORITIES if authority.name == "etcd")


def secret_name(cluster: str) -> str:
    """Return the name of the Secret with a cluster's certificate."""
    return f"{cluster}-etcd-client"


def lifetime_of(wish: ClusterDeployment) -> timedelta:
    """Return for how long a certificate is valid."""
    validity = wish.spec.certificates.validity
    return timedelta(hours=int(validity.partition("h")[0]) if validity is not None else YEAR_HOURS)


def end_of(data: Mapping[str, bytes], user: str, ca: bytes, now: datetime, days: int) -> datetime | None:
    """Return when the certificate of a Secret expires; None where another one has to be signed.

    Args:
        user: whom it is to be of.  ca: who is to have signed it, as PEM.
        days: within how many of its end another one is signed, or within half of its life.
    """
    try:
        certificate = x509.load_pem_x509_certificate(data[CERTIFICATE])
        key = load_pem_private_key(data[KEY], password=None)
        issuer = x509.load_pem_x509_certificates(ca)[0]
    except (KeyError, ValueError, TypeError):
        return None
    names = [attribute.value for attribute in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    soon = min(timedelta(days=days), (end - begin) / 2)
    same = names == [user] and key.public_key() == certificate.public_key() and signed_by(certificate, issuer)
    return end if same and data.get(CA) == ca and end - now > soon else None


class EtcdClients:
    """Reconciles what each cluster has of the EtcdCluster that it names."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._events = context.events
        self._looks = looks = ClusterLooks(context)
        self.controller = Controller("etcdclients", self.reconcile, workers=1)
        follow(looks.deployments, self.controller.queue)
        follow(looks.clusters, self.controller.queue)
        self._lock = threading.Lock()
        self._refs: dict[Key, Key] = {}  # the EtcdCluster that each cluster names
        self._users: dict[Key, set[Key]] = {}  # and the clusters by it
        looks.deployments.subscribe(self._declared)
        looks.clusters.subscribe(self._changed)

    def _declared(self, event: str, obj: Json) -> None:
        """Know which clusters name an EtcdCluster: to look through all for each change would cost their square."""
        key, ref = key_of(obj), dig(obj, "spec", "etcd", "clusterRef", "name")
        if not is_etcd(obj):
            with self._lock:
                if before := self._refs.pop(key, None):
                    self._users[before].discard(key)
                if ref and event != "DELETED":
                    self._refs[key] = (key[0], ref)
                    self._users.setdefault((key[0], ref), set()).add(key)
        self._changed(event, obj)

    def _changed(self, _: str, obj: Json) -> None:
        """Look at all clusters of the EtcdCluster that a change is about."""
        namespace, name = key_of(obj)
        concerned = {
            name,
            dig(obj, "status", "etcdClient", "cluster"),
            dig(obj, "spec", "etcd", "clusterRef", "name"),
        }
        with self._lock:
            users = [
                user for cluster_name in concerned - {None} for user in self._users.get((namespace, cluster_name), ())
            ]
        for user in users:
            self.controller.queue.add(user)

    def reconcile(self, key: Key) -> float | None:
        """Look at one cluster; return the seconds until the next look, None where only a change matters."""
        deployment = self._looks.deployments.get(*key)
        if not dig(deployment, "spec", "etcd", "clusterRef"):
            return None
        workable = Workable.of(self._looks.view(key))
        ref = workable.wish.spec.etcd.cluster_ref if workable is not None else None
        if workable is None or ref is None:
            return None
        etcd, namespace = self._looks.deployments.get(key[0], ref.name), key[0]
        around = EtcdAround.of(
            workable.wish,
            etcd if is_etcd(etcd) else None,
            self._looks.clusters.list(namespace),
            self._looks.deployments.list(namespace),
        )
        before = workable.observed.etcd_client
        if deleting(workable.deployment):
            self._leave(workable, before, around)
            return None
        state = client_state(workable.wish, before, around, fixed=workable.observed.touched)
        if state.user and state.uid == dig(around.etcd, "metadata", "uid"):
            state = self._certified(state, workable, around)
        back = restored_by(around)
        went_back = bool(before is not None and before.restored and back) and back != state.restored
        if state.user and (went_back or not state.restored):
            state = state.model_copy(update={"restored": back or NEVER})
        changes = (
            {"unsettled": _unsettled(workable, back)} if went_back and workable.observed.applied is not None else {}
        )
        self._write(workable, before, state, changes)
        return AGAIN_SECONDS if state.usable else REFUSED_SECONDS

    def _leave(self, workable: Workable, before: EtcdClientState | None, around: EtcdAround) -> None:
        """Give up what a cluster has once its machines are reset, where its keys are to go."""
        if before is None or not before.user or workable.observed.running is not None:
            return
        verdict = workable.verdict
        waits = isinstance(verdict, Wait) and verdict.reason == WaitReason.WAITING_FOR_ETCD
        if waits or before.leaving:
            self._write(workable, before, leaving_state(before, around, workable.wish), {})

    def _write(
        self, workable: Workable, before: EtcdClientState | None, state: EtcdClientState, changes: Mapping[str, Any]
    ) -> None:
        """Write what a cluster has, if it is something else. Raises ApiFailure, above all a conflict."""
        if state == before and not changes:
            return
        known = dig(workable.cluster, "status", "etcdClient") or {}
        fields = state.model_dump(mode="json", by_alias=True, exclude_none=True)
        gone = dict.fromkeys(known.keys() - fields.keys())  # a merge patch keeps what it does not name
        self._looks.clusters.merge_status(workable.cluster, {"etcdClient": {**gone, **fields}, **changes})
        if state.reason in TROUBLE and (before is None or before.reason != state.reason):
            self._events.warning(workable.deployment, state.reason, state.message, component=COMPONENT)

    def _certified(self, state: EtcdClientState, workable: Workable, around: EtcdAround) -> EtcdClientState:
        """Return a state with the certificate of its user, which is signed if it has to be."""
        name = secret_name(workable.key[1])
        try:
            expires = self._certificate(name, state, workable, around)
        except AuthorityRefused as refused:
            why = {"usable": False, "ready": False, "reason": "CertificateRefused", "message": str(refused)}
            return state.model_copy(update=why)
        return state.model_copy(update={"secret": name, "expires": stamp(expires)})

    def _certificate(self, name: str, state: EtcdClientState, workable: Workable, around: EtcdAround) -> datetime:
        """Have the Secret hold a certificate; return when it expires. Raises AuthorityRefused: nothing can sign it."""
        wish, now, namespace = workable.wish, datetime.now(UTC), workable.key[0]
        parts = around.cluster.status.authority.parts if around.cluster and around.cluster.status.authority else ()
        part = next((candidate for candidate in parts if candidate.name == AUTHORITY.name), None)
        if part is None:
            raise AuthorityRefused(
                "SecretMissing", f"EtcdCluster {state.cluster} has no CA yet: see its AuthorityValid"
            )
        data = self._content(part.secret, namespace)
        if judged(AUTHORITY, part.secret, data, now).public_key != part.public_key:
            message = f"Secret {part.secret} has another key than EtcdCluster {state.cluster}: put that one back"
            raise AuthorityRefused("Changed", message)
        there = self._cluster.get(SECRET, name, namespace)
        owner = controller_of(there) if there is not None else None
        if there is not None and (owner is None or owner.get("uid") != workable.deployment["metadata"]["uid"]):
            remedy = "wait until it is deleted, or delete it"
            raise AuthorityRefused("SecretInUse", f"Secret {name} belongs to another object: {remedy}")
        days = max(RENEW_DAYS, wish.spec.certificates.renew_before_days or 0)
        end = end_of(secret_content(there), state.user, data[CERTIFICATE], now, days) if there is not None else None
        if end is not None:
            return end
        issuer, key = signer_of(part.secret, data)
        asked, own_key = request(state.user, ())
        made = signed(asked, issuer, key, now, lifetime_of(wish))
        content = {CA: first(data[CERTIFICATE]), CERTIFICATE: made, KEY: own_key}
        ensure(self._cluster, SECRET, _secret(name, workable.deployment, content, new=there is None))
        return x509.load_pem_x509_certificate(made).not_valid_after_utc

    def _content(self, name: str, namespace: str) -> Mapping[str, bytes]:
        """Return what the Secret of a CA holds. Raises AuthorityRefused: there is none."""
        secret = self._cluster.get(SECRET, name, namespace)
        if secret is None:
            raise AuthorityRefused("SecretMissing", f"Secret {name} with the CA of etcd is gone: put a copy of it back")
        return secret_content(secret)


def _secret(name: str, deployment: Json, content: Mapping[str, bytes], *, new: bool) -> Json:
    """Return the Secret of a cluster's certificate; its type never changes."""
    meta = deployment["metadata"]
    labels = {CLUSTER_LABEL: meta["name"], LABEL_MANAGED: MANAGED_BY}
    kind = {"type": SECRET_TYPE} if new else {}
    body = SECRET.manifest(name, meta["namespace"], labels=labels, data=secret_data(content), **kind)
    body["metadata"]["ownerReferences"] = [owner_of(deployment)]
    return body


def _unsettled(workable: Workable, restore: str) -> Json:
    """Return what may be done half once the objects of a cluster went back in time together with its EtcdCluster."""
    half = workable.observed.unsettled or UnsettledState()
    state = workable.observed.etcd_client
    why = f"{restore} of EtcdCluster {state.cluster if state is not None else ''}"
    parts = tuple(dict.fromkeys((*half.parts, *WENT_BACK)))
    made: Json = half.model_copy(update={"parts": parts, "why": why}).model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    return made


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(EtcdClients(context).controller)

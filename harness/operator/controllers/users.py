"""Users: a certificate that the guest or its CA's Secret signs, a Secret with a kubeconfig, and bindings in the guest.

A deletion takes the bindings away. Nothing takes a certificate back: without bindings it opens what every certificate
of the cluster does, until it expires.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from pydantic import ValidationError

from harness.errors import VmatrixError
from harness.kube import certificates
from harness.kube.client import ApiFailure, Cluster, Json
from harness.kube.informer import Key, key_of
from harness.kube.objects import (
    condition,
    controller_of,
    deleting,
    dig,
    ensure,
    owner_reference,
    secret_content,
    secret_data,
    stamp,
)
from harness.kube.reconcile import Controller, follow
from harness.kube.resources import CLUSTER_ROLE_BINDING, CSR, ROLE_BINDING, SECRET, Resource
from harness.model import LABEL_MANAGED, MANAGED_BY
from harness.operator.api.cluster import AuthorityState, DeclaredCluster
from harness.operator.api.conditions import READY, new, with_conditions
from harness.operator.api.resources import CLUSTER, CLUSTER_LABEL, CLUSTER_USER, USER_FINALIZER
from harness.operator.api.users import ClusterUser
from harness.operator.context import OperatorContext
from harness.operator.controllers.guest import KEY as ADMIN
from harness.operator.controllers.guest import GuestAccess, NoKubeconfig
from harness.operator.controllers.guest import secret_name as admin_secret
from harness.operator.decide.authority import (
    AUTHORITIES,
    AuthorityRefused,
    judged,
    signer_of,
    signs_outside,
    unchanged,
)
from harness.operator.decide.users import (
    CERTIFICATE,
    KEY,
    KUBECONFIG,
    USER_LABEL,
    Credentials,
    bindings_of,
    endpoint_of,
    expiry_of,
    kubeconfig_of,
    name_of,
    renewal_of,
    secret_name,
)
from harness.until import Deadline, NotYet, TimedOut, until

COMPONENT = "users"
SIGNER = "kubernetes.io/kube-apiserver-client"
SIGNED_SECONDS = 20.0  # an API server's controller manager signs within a second
AGAIN_SECONDS = 300.0  # pacing: a binding that somebody deleted is put back by then
LOOK = "see the condition AuthorityValid of the ClusterDeployment"
TROUBLE_SECONDS = 30.0  # pacing: while a guest does not answer


BoundPlace = tuple[Resource, str | None, str]  # of a binding: its kind, namespace and name


class SecretTaken(VmatrixError):
    """Somebody else has a Secret of the name that a user's has."""


class NotSigned(VmatrixError):
    """The guest signs no certificate."""


REASONS = {SecretTaken: "SecretInUse", NotSigned: "NotSigned"}


class Users:
    """Keeps the users of clusters."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._events = context.events
        self._access = GuestAccess(context)
        self._clusters = context.informers.of(CLUSTER)
        self._users = context.informers.of(CLUSTER_USER)
        self.controller = Controller("users", self.reconcile)
        follow(self._users, self.controller.queue)
        self._clusters.subscribe(self._changed)

    def _changed(self, _: str, cluster: Json) -> None:
        namespace, name = key_of(cluster)
        for user in self._users.list(namespace):
            if user["spec"]["cluster"] == name:
                self.controller.queue.add(key_of(user))

    def reconcile(self, key: Key) -> float | None:
        """Look at one user; return the seconds until the next look, None where only a change matters."""
        obj = self._users.get(*key)
        if obj is None:
            return None
        try:
            user = ClusterUser.model_validate(obj)
        except ValidationError as error:
            if deleting(obj):
                self._release(obj)
            else:
                self._say(obj, "InvalidSpec", str(error))
            return None
        cluster = self._clusters.get(key[0], user.spec.cluster)
        there = cluster is not None and not deleting(cluster) and bool(dig(cluster, "status", "applied"))
        try:
            if deleting(obj):
                return self._delete(obj, user, there=there)
            wrong = [f"{rule.message}: {rule.remedy}" for _, rule in user.broken(creating=False)]
            if there and not wrong:
                return self._bring(obj, user)
        except ApiFailure as failure:
            if failure.conflict:
                raise
            return self._trouble(obj, "Refused", failure)
        except VmatrixError as error:
            return self._trouble(obj, REASONS.get(type(error), "NotReached"), error)
        if wrong:
            self._say(obj, "InvalidSpec", wrong[0])
        else:
            self._say(obj, "NotDeployed", f"there is no cluster {user.spec.cluster} yet")
        return None

    def _trouble(self, obj: Json, reason: str, error: VmatrixError) -> float:
        self._say(obj, reason, error.summary)
        return TROUBLE_SECONDS

    def _bring(self, obj: Json, user: ClusterUser) -> float:
        """Bring a user's bindings and its kubeconfig up to date."""
        finalizers = obj["metadata"].get("finalizers") or []
        if USER_FINALIZER not in finalizers:
            obj = self._users.merge(obj, {"metadata": {"finalizers": [*finalizers, USER_FINALIZER]}})
        namespace, now = user.metadata.namespace, datetime.now(UTC)
        admin = dig(self._cluster.get(SECRET, admin_secret(user.spec.cluster), namespace), "data", ADMIN)
        if not admin:
            raise NoKubeconfig(f"there is no Secret {admin_secret(user.spec.cluster)} with a kubeconfig as {ADMIN}")
        url = dig(self._clusters.get(namespace, user.spec.cluster), "status", "endpoint", "url")
        endpoint = endpoint_of(base64.b64decode(admin), url or "")
        authority = base64.b64decode(endpoint.get("certificate-authority-data") or "")
        secret = self._cluster.get(SECRET, secret_name(user), namespace)
        if secret is not None and (controller_of(secret) or {}).get("uid") != user.metadata.uid:
            raise SecretTaken(f"Secret {secret_name(user)} is another object's: rename this user, or delete the Secret")
        known = _credentials(secret)
        turns = renewal_of(user, known, authority, now)
        with self._guest(user) as guest:
            self._bind(guest, user)
            credentials = known if turns is not None and known is not None else self._signed(guest, user, now)
        self._hand_out(obj, user, kubeconfig_of(user, endpoint, credentials), credentials)
        expires = expiry_of(credentials)
        if credentials is not known:
            text = f"a certificate of {name_of(user)} is valid until {stamp(expires)}"
            self._events.normal(obj, "Signed", text, component=COMPONENT)
            turns = renewal_of(user, credentials, authority, now)
        self._say(obj, "Ready", "", user=name_of(user), secret=secret_name(user), expires=stamp(expires))
        return min(AGAIN_SECONDS, max(1.0, ((turns or now + timedelta(seconds=TROUBLE_SECONDS)) - now).total_seconds()))

    def _signed(self, guest: Cluster, user: ClusterUser, now: datetime) -> Credentials:
        """Return a new certificate of a user: of the guest, or of the CA here, where the guest has no key to sign with.

        Raises:
            NotSigned: neither can sign.
        """
        namespace = user.metadata.namespace
        status = DeclaredCluster.model_validate(self._clusters.get(namespace, user.spec.cluster)).status
        if status.applied is None or not signs_outside(status.applied.variables):
            return signed(guest, user)
        return self._signed_here(user, status.authority, now)

    def _signed_here(self, user: ClusterUser, state: AuthorityState | None, now: datetime) -> Credentials:
        authority = AUTHORITIES[0]
        part = next((part for part in state.parts if part.name == authority.name), None) if state is not None else None
        if part is None:
            raise NotSigned("the CA's Secret is not known, and the cluster has no key to sign with", hint=LOOK)
        data = secret_content(self._cluster.get(SECRET, part.secret, user.metadata.namespace))
        try:
            unchanged(judged(authority, part.secret, data, now), state)
        except AuthorityRefused as refused:
            raise NotSigned(f"the cluster has no key to sign with, and {refused}", hint=LOOK) from refused
        request, key = certificates.request(name_of(user), user.spec.groups)
        lifetime = timedelta(seconds=user.spec.validity_seconds)
        return Credentials(certificates.signed(request, *signer_of(part.secret, data), now, lifetime), key)

    def _bind(self, guest: Cluster, user: ClusterUser) -> None:
        """Make the bindings of a user, and delete those that it has no more."""
        bindings = bindings_of(user)
        for kind, body in bindings:
            ensure(guest, kind, body)
        names: set[BoundPlace] = {
            (kind, body["metadata"].get("namespace"), body["metadata"]["name"]) for kind, body in bindings
        }
        self._unbind(guest, user, keep=names)

    def _unbind(self, guest: Cluster, user: ClusterUser, *, keep: Collection[BoundPlace]) -> None:
        for kind in (ROLE_BINDING, CLUSTER_ROLE_BINDING):
            for binding in guest.list(kind, labels=f"{USER_LABEL}={user.metadata.uid}").items:
                meta = binding["metadata"]
                if (kind, meta.get("namespace"), meta["name"]) not in keep:
                    guest.delete(kind, meta["name"], meta.get("namespace"))

    def _hand_out(self, obj: Json, user: ClusterUser, kubeconfig: bytes, credentials: Credentials) -> None:
        """Make the Secret hold what a user opens the cluster with."""
        content = {KUBECONFIG: kubeconfig, CERTIFICATE: credentials.certificate, KEY: credentials.key}
        labels = {CLUSTER_LABEL: user.spec.cluster, LABEL_MANAGED: MANAGED_BY}
        body = SECRET.manifest(secret_name(user), user.metadata.namespace, labels=labels, data=secret_data(content))
        body["metadata"]["ownerReferences"] = [owner_reference(obj, CLUSTER_USER)]
        ensure(self._cluster, SECRET, body)

    def _delete(self, obj: Json, user: ClusterUser, *, there: bool) -> float | None:
        """Take the bindings away, say until when the certificate still opens, and let the object go."""
        if USER_FINALIZER not in (obj["metadata"].get("finalizers") or ()):
            return None
        if there:
            with self._guest(user) as guest:
                self._unbind(guest, user, keep=set())
        if there and user.status.expires is not None:
            text = (
                f"the bindings of {name_of(user)} are gone; its certificate opens the API until {user.status.expires}"
            )
            self._events.normal(obj, "Unbound", text, component=COMPONENT)
        self._release(obj)
        return None

    def _release(self, obj: Json) -> None:
        others = [finalizer for finalizer in obj["metadata"].get("finalizers") or () if finalizer != USER_FINALIZER]
        self._users.merge(obj, {"metadata": {"finalizers": others}})

    @contextmanager
    def _guest(self, user: ClusterUser) -> Iterator[Cluster]:
        with self._access.open((user.metadata.namespace, user.spec.cluster)) as guest:
            yield guest

    def _say(self, obj: Json, reason: str, message: str, **fields: str) -> None:
        """Write a user's status, if it is another one."""
        generation, before = obj["metadata"].get("generation"), obj.get("status") or {}
        told = new(READY, reason == READY, reason, message, datetime.now(UTC), generation)
        status = {**before, **fields, "conditions": with_conditions(before.get("conditions") or [], told)}
        if status != before:
            self._users.replace_status(self._users.get(*key_of(obj)) or obj, status)


def _credentials(secret: Json | None) -> Credentials | None:
    content = secret_content(secret)
    contents = [content.get(key, b"") for key in (CERTIFICATE, KEY)]
    return Credentials(*contents) if all(contents) else None


def signed(guest: Cluster, user: ClusterUser) -> Credentials:
    """Return a new certificate of a user, which the guest has signed.

    Raises:
        NotSigned: the guest refuses it, or nothing there signs.
    """
    request, key = certificates.request(name_of(user), user.spec.groups)
    spec = {
        "request": base64.b64encode(request).decode(),
        "signerName": SIGNER,
        "expirationSeconds": user.spec.validity_seconds,
        "usages": ["client auth", "digital signature"],
    }
    name = f"vmatrix-user-{user.metadata.name[:40]}-{secrets.token_hex(4)}"
    asked = guest.create(CSR, CSR.manifest(name, "", labels={USER_LABEL: user.metadata.uid}, spec=spec))
    approved = {"type": "Approved", "status": "True", "reason": "ClusterUser", "message": "the operator made it"}
    try:
        guest.replace(CSR, {**asked, "status": {"conditions": [approved]}}, subresource="approval")
        deadline = Deadline.after(SIGNED_SECONDS)
        pem = until(lambda: _issued(guest, name), deadline=deadline, what=f"{name} to be signed")
    except TimedOut as late:
        raise NotSigned(late.summary, hint="a cluster whose machines have no CA's key signs nothing") from late
    finally:
        guest.delete(CSR, name)
    return Credentials(pem, key)


def _issued(guest: Cluster, name: str) -> bytes | NotYet:
    request = guest.get(CSR, name)
    for kind in ("Failed", "Denied"):
        if (refused := condition(request, kind)) is not None:
            raise NotSigned(f"the cluster signs no certificate: {refused.get('message') or kind}", hint="see its spec")
    pem = dig(request, "status", "certificate")
    return base64.b64decode(pem) if pem else NotYet("the controller manager has not signed it")


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(Users(context).controller)

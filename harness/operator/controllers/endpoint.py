"""Endpoints: what leads to the control planes of a cluster in its infra cluster, put back where it is changed.

A Service without a selector and its EndpointSlice are behind every type but VIP: the slice follows the control planes,
and an Ingress, a TLSRoute or a load balancer follows the Service. The kubeconfig for people names the endpoint. That of
the operator never does: it has to open a cluster whose endpoint does not work.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from pydantic import ValidationError

from harness.kube.client import ApiFailure, Json, ServedKinds
from harness.kube.informer import Key, key_of
from harness.kube.objects import deleting, dig, holds
from harness.kube.reconcile import Controller, follow, follow_children
from harness.kube.resources import ENDPOINT_SLICE, INGRESS, INGRESS_CLASS, SERVICE, TLS_ROUTE, Resource
from harness.kube.resources import GATEWAY as GATEWAY_KIND
from harness.operator.api.clusterdeployment import ClusterDeployment
from harness.operator.api.endpoint import (
    BALANCER,
    GATEWAY,
    INGRESS_TYPE,
    LOCAL,
    SERVED,
    SERVICE_TYPE,
    VIRTUAL,
    ApiEndpoint,
    EndpointState,
    api_url,
    service_name,
)
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT, CLUSTER_LABEL, MACHINE
from harness.operator.api.sets import CONTROL_PLANE
from harness.operator.context import OperatorContext
from harness.operator.controllers.cluster_view import owned_by
from harness.operator.controllers.guest import for_people, is_of_others, people_secret_name, take_from_people
from harness.operator.controllers.machine_phase import claimed_by, follow_claims, is_down, own_address
from harness.operator.decide import endpoint as decide
from harness.operator.decide.endpoint import Backend, EndpointReason, EndpointRefused, EndpointSeen

LOOK_SECONDS = 5.0  # pacing: while something is missing of which no event comes, such as an IngressClass
AGAIN_SECONDS = 30.0  # pacing: TLSRoutes are not watched, because most infra clusters do not serve them
OTHERS = "Secret {} for the kubeconfig of the endpoint is another object's: give that one another name, or this cluster"


class EndpointController:
    """Publishes the API servers of clusters."""

    def __init__(self, context: OperatorContext) -> None:
        self._cluster = context.cluster
        self._served = ServedKinds(context.cluster)
        self._deployments = context.informers.of(CLUSTER_DEPLOYMENT)
        self._clusters = context.informers.of(CLUSTER)
        self._machines = context.informers.of(MACHINE)
        kinds = (SERVICE, ENDPOINT_SLICE, INGRESS)
        self._made = {kind: context.informers.of(kind, labels=CLUSTER_LABEL) for kind in kinds}
        self.controller = Controller("endpoint", self.reconcile, workers=1)
        for informer in (self._deployments, self._clusters):
            follow(informer, self.controller.queue)
        for informer in self._made.values():
            follow_children(informer, CLUSTER_DEPLOYMENT, self.controller.queue)
        follow_claims(self._machines, self.controller.queue)

    def reconcile(self, key: Key) -> float | None:
        """Look at one cluster."""
        deployment = self._deployments.get(*key)
        if deployment is None or deleting(deployment):
            return None  # what was made goes with its owner
        try:
            wish = ClusterDeployment.model_validate(deployment)
        except ValidationError:
            return None
        endpoint, cluster = wish.spec.way, self._clusters.get(*key)
        if any(endpoint.broken(creating=False)):
            return None  # definitions older than these rules; the object is not accepted
        if cluster is not None and (deleting(cluster) or not owned_by(cluster, deployment)):
            cluster = None
        told = dig(cluster, "status", "endpoint")
        before = EndpointState.model_validate(told) if told else None
        if endpoint.type == GATEWAY and (before is None or before.type != GATEWAY):
            url = before.url if before is not None else None  # which the kubeconfig for people has until then
            before = decide.settled(
                before, GATEWAY, EndpointSeen(None, EndpointReason.NOT_YET, decide.NOT_YET), datetime.now(UTC)
            )
            before = before.model_copy(update={"url": url})
            cluster = self._write(cluster, before)  # so that whoever takes the type back knows of the route
        observed = self._lead(deployment, endpoint, before)
        if observed is not None and observed.ready and cluster is not None and is_of_others(self._cluster, cluster):
            observed = replace(
                observed,
                ready=False,
                reason=EndpointReason.NAME_IN_USE,
                message=OTHERS.format(people_secret_name(key[1])),
            )
        after = decide.settled(before, endpoint.type, observed, datetime.now(UTC)) if observed is not None else None
        after = self._hand_out(deployment, wish, cluster, before, after)
        self._write(cluster, after)
        if after is None or (after.ready and after.type != GATEWAY):
            return None
        return AGAIN_SECONDS if after.ready else LOOK_SECONDS

    def _lead(self, deployment: Json, endpoint: ApiEndpoint, before: EndpointState | None) -> EndpointSeen | None:
        """Have what leads to the API servers, and nothing else; return what is seen of it, None for nothing."""
        try:
            self._remove(deployment, endpoint, before)
            if endpoint.type == LOCAL:
                return None
            refused = decide.taken(deployment, self._deployments.list, self._machines.list)
            if refused is not None:
                raise refused
            if endpoint.type == VIRTUAL:
                return EndpointSeen(
                    True, EndpointReason.ON_CONTROL_PLANES, f"a control plane that serves has {endpoint.address}"
                )
            return self._published(deployment, endpoint)
        except EndpointRefused as refused:
            return EndpointSeen(False, refused.reason, str(refused))
        except ApiFailure as failure:
            if not failure.refused:
                raise
            return EndpointSeen(False, EndpointReason.REFUSED, f"the infra cluster refuses it: {failure.summary}")

    def _published(self, deployment: Json, endpoint: ApiEndpoint) -> EndpointSeen:
        service = self._put(SERVICE, decide.service(deployment, endpoint), deployment)
        if planes := self._planes(key_of(deployment)):
            self._put(ENDPOINT_SLICE, decide.endpoint_slice(deployment, planes), deployment)
        if endpoint.type == SERVICE_TYPE:
            return EndpointSeen(True, EndpointReason.READY, "")
        if endpoint.type == BALANCER:
            return decide.balancer_seen(service, endpoint)
        if endpoint.type == INGRESS_TYPE:
            classes = self._cluster.list(INGRESS_CLASS).items
            return decide.ingress_seen(self._put(INGRESS, decide.ingress(deployment, endpoint, classes), deployment))
        return self._routed(deployment, endpoint)

    def _routed(self, deployment: Json, endpoint: ApiEndpoint) -> EndpointSeen:
        """Attach a TLSRoute to the Gateway."""
        route, kind = (self._served.preferred(resource.group, resource.kind) for resource in (TLS_ROUTE, GATEWAY_KIND))
        if route is None or kind is None:
            lacking = (TLS_ROUTE if route is None else GATEWAY_KIND).kind
            raise EndpointRefused(
                EndpointReason.NO_GATEWAY_API,
                f"the infra cluster has no kind {lacking} of {TLS_ROUTE.group}: install the Gateway API with a "
                "controller that has TLSRoutes, or choose another type",
            )
        ref, namespace = endpoint.gateway_ref, deployment["metadata"]["namespace"]
        gateway = self._cluster.get(kind, ref.name, ref.namespace or namespace) if ref is not None else None
        listener = decide.listener_of(gateway, endpoint, namespace)
        return decide.route_seen(self._put(route, decide.tls_route(deployment, endpoint, route), deployment), listener)

    def _put(self, kind: Resource, body: Json, deployment: Json) -> Json:
        """Have an object as it is to be; return it.

        Raises:
            EndpointRefused: another object has its name, or it is still being deleted.
        """
        namespace, name = key_of(body)
        known = self._made[kind].get(namespace, name) if kind in self._made else None
        if known is not None and _as_wanted(known, body) and owned_by(known, deployment) and not deleting(known):
            return known
        there = self._cluster.get(kind, name, namespace)
        if there is None:
            return self._cluster.create(kind, body)
        if deleting(there) or not owned_by(there, deployment):
            raise EndpointRefused(
                EndpointReason.NAME_IN_USE,
                f"{kind.kind} {name} is another's, or still being deleted: delete it, "
                "or give the ClusterDeployment another name",
            )
        if _as_wanted(there, body):
            return there
        if decide.must_be_new(there, body):
            self._cluster.delete(kind, name, namespace)
            raise EndpointRefused(
                EndpointReason.REPLACED, f"{kind.kind} {name} is made anew: the class of a load balancer is fixed"
            )
        meta = {**body["metadata"], "annotations": _annotations(there, body)}
        return self._cluster.merge(kind, name, {**body, "metadata": meta}, namespace)

    def _remove(self, deployment: Json, endpoint: ApiEndpoint, before: EndpointState | None) -> None:
        """Delete what another type had."""
        namespace, name = deployment["metadata"]["namespace"], service_name(deployment["metadata"]["name"])
        kinds = [] if endpoint.type == INGRESS_TYPE else [INGRESS]
        kinds += [] if endpoint.type in SERVED else [ENDPOINT_SLICE, SERVICE]
        for kind in kinds:
            obj = self._made[kind].get(namespace, name)
            if obj is not None and owned_by(obj, deployment) and not deleting(obj):
                self._cluster.delete(kind, name, namespace)
        if before is None or before.type != GATEWAY or endpoint.type == GATEWAY:
            return
        route = self._served.preferred(TLS_ROUTE.group, TLS_ROUTE.kind)
        obj = self._cluster.get(route, name, namespace) if route is not None else None
        if route is not None and obj is not None and owned_by(obj, deployment):
            self._cluster.delete(route, name, namespace)

    def _hand_out(
        self,
        deployment: Json,
        wish: ClusterDeployment,
        cluster: Json | None,
        before: EndpointState | None,
        after: EndpointState | None,
    ) -> EndpointState | None:
        """Give people a kubeconfig of the endpoint once certificates name it; return the state with its URL."""
        whole = ClusterDeployment.model_validate(decide.filled_endpoint(deployment, after))
        variables = dig(cluster, "status", "applied", "variables") or {}
        url = None
        if after is not None and decide.is_named(whole, variables):
            meta = wish.metadata
            url = api_url(whole.spec.way, meta.name, meta.namespace, after.port)
        if cluster is not None and url is not None:
            for_people(self._cluster, cluster, url)
        elif cluster is not None and before is not None and before.url is not None:
            take_from_people(self._cluster, cluster)
        return after.model_copy(update={"url": url}) if after is not None else None

    def _write(self, cluster: Json | None, state: EndpointState | None) -> Json | None:
        """Write the state, if it is another one; return the Cluster with it."""
        told = state.model_dump(mode="json", by_alias=True) if state is not None else None
        before = dig(cluster, "status", "endpoint")
        known = EndpointState.model_validate(before).model_dump(mode="json", by_alias=True) if before else None
        if cluster is None or told == known:
            return cluster
        return self._clusters.merge_status(cluster, {"endpoint": told})

    def _planes(self, key: Key) -> list[Backend]:
        """Return the control planes that were deployed."""
        applied = dig(self._clusters.get(*key), "status", "applied", "machines") or ()
        return [
            Backend(address, is_down(machine))
            for machine in claimed_by(self._machines, key)
            if machine["metadata"]["name"] in applied and CONTROL_PLANE in (dig(machine, "status", "roles") or ())
            if (address := own_address(machine))
        ]


def _as_wanted(obj: Json, body: Json) -> bool:
    """Tell whether an object has all that is wanted, and nothing that is to be absent."""
    expected_spec, spec = body.get("spec") or {}, obj.get("spec") or {}
    absent = all(spec.get(name) is None for name, value in expected_spec.items() if value is None)
    return absent and holds(obj, body) and not decide.surplus(obj, body) and not decide.must_be_new(obj, body)


def _annotations(obj: Json, body: Json) -> Json:
    return {**decide.surplus(obj, body), **(dig(body, "metadata", "annotations") or {})}


def start(context: OperatorContext) -> None:
    """Hand the controller to the manager."""
    context.run(EndpointController(context).controller)

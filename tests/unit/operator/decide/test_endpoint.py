"""Ways to the API: what leads there, what is wrong, which names certificates need, and what edits of the type do."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from harness.kube.objects import stamp
from harness.kube.resources import TLS_ROUTE
from harness.operator.api.endpoint import ApiEndpoint, EndpointState, api_names, api_url
from harness.operator.decide import endpoint as decide
from harness.operator.decide.accepted import edit_mistakes
from harness.operator.decide.endpoint import Backend, EndpointReason, EndpointRefused, EndpointSeen
from harness.operator.decide.observed import CHANGES, Observed
from harness.operator.decide.operations import DUTIES, Nothing, next_operation
from tests.unit.operator.api.objects import defaulted, deployment
from tests.unit.operator.decide.wishes import MACHINES, NOW, deployed, operation, wait, wish
from tests.unit.pages import ROOT

Json = dict[str, Any]
INSIDE = ["guest-api", "guest-api.default", "guest-api.default.svc"]
ENDPOINTS: dict[str, Json] = {
    "Local": {},
    "Service": {"type": "Service"},
    "LoadBalancer": {"type": "LoadBalancer"},
    "asked": {"type": "LoadBalancer", "address": "192.0.2.60"},
    "named": {"type": "LoadBalancer", "host": "api.example.com", "port": 443},
    "Ingress": {"type": "Ingress", "host": "api.example.com"},
    "Gateway": {"type": "Gateway", "host": "api.example.com", "gatewayRef": {"name": "edge"}},
    "VIP": {"type": "VIP", "address": "192.0.2.50"},
    "named VIP": {"type": "VIP", "address": "192.0.2.50", "host": "api.example.com"},
}


def endpoint(name: str, **more: Any) -> ApiEndpoint:
    return ApiEndpoint.model_validate({**ENDPOINTS[name], **more})


def owner(name: str = "guest", **meta: Any) -> Json:
    made = deployment(name=name)
    made["metadata"] |= {"uid": f"uid-of-{name}", **meta}
    return made


@pytest.mark.parametrize(
    ("name", "names", "url"),
    [
        ("Local", [], None),
        ("Service", INSIDE, "https://guest-api.default.svc:6443"),
        ("LoadBalancer", None, None),
        ("asked", [*INSIDE, "192.0.2.60"], "https://192.0.2.60:6443"),
        ("named", [*INSIDE, "api.example.com"], "https://api.example.com:443"),
        ("Ingress", [*INSIDE, "api.example.com"], "https://api.example.com:443"),
        ("Gateway", [*INSIDE, "api.example.com"], "https://api.example.com:8443"),
        ("VIP", ["192.0.2.50"], "https://192.0.2.50:6443"),
        ("named VIP", ["api.example.com", "192.0.2.50"], "https://api.example.com:6443"),
    ],
)
def test_each_type_has_its_names_and_its_url(name: str, names: list[str] | None, url: str | None) -> None:
    assert api_names(endpoint(name), "guest", "default") == names
    assert api_url(endpoint(name), "guest", "default", 8443) == url


def test_an_address_of_ipv6_is_in_brackets() -> None:
    assert api_url(endpoint("VIP", address="2001:db8::5"), "guest", "default") == "https://[2001:db8::5]:6443"


# --- edits -------------------------------------------------------------------------------------------------------
def of(name: str, state: EndpointState | None = None, **more: Any) -> Any:
    """Return the wish with an endpoint, as reconciles see it."""
    obj = decide.filled_endpoint(deployment(endpoint=ENDPOINTS[name]), state)
    return wish(endpoint=obj["spec"]["endpoint"], **more)


BALANCED = EndpointState(type="LoadBalancer", ready=True, reason="Ready", address="192.0.2.70")


@pytest.mark.parametrize("before", ENDPOINTS)
@pytest.mark.parametrize("after", ENDPOINTS)
def test_another_type_signs_other_names_and_the_way_back_is_open(before: str, after: str) -> None:
    state = BALANCED if before == "LoadBalancer" else None
    first = of(before, state)
    world = deployed(first, endpoint=BALANCED if state else None)
    edited = of(after, state, machines=MACHINES, applied=world.applied)
    assert edit_mistakes(edited.wish, world.applied) == []
    verdict = next_operation(edited, world)
    if edited.variables == first.variables or after == "LoadBalancer":
        assert verdict == Nothing(), "there is nothing to sign, or it is not known what"
    else:
        assert operation(verdict).operation == "reconfigure"
    assert next_operation(of(before, state, applied=world.applied), world) == Nothing(), "taken back"


def test_certificates_keep_their_names_until_the_balancer_has_an_address() -> None:
    world = deployed(of("Ingress"))
    waiting = of("LoadBalancer", None, applied=world.applied)
    assert waiting.variables["cluster_api_extra_sans"] == [*INSIDE, "api.example.com"]
    known = of("LoadBalancer", BALANCED, applied=world.applied)
    due = operation(next_operation(known, world))
    assert due.operation == "reconfigure"
    assert due.why == "names of the API servers: +192.0.2.70, -api.example.com"


def test_the_first_deployment_waits_for_the_balancer() -> None:
    held = wait(next_operation(of("LoadBalancer"), Observed(NOW)))
    assert (str(held.reason), held.message) == ("WaitingForEndpoint", decide.NOT_YET)
    said = EndpointState(type="LoadBalancer", ready=False, reason="NoLoadBalancer", message="nobody gives one")
    assert wait(next_operation(of("LoadBalancer"), Observed(NOW, endpoint=said))).message == "nobody gives one"
    other = EndpointState(type="Ingress", message="of another type")
    assert wait(next_operation(of("LoadBalancer"), Observed(NOW, endpoint=other))).message == decide.NOT_YET
    assert operation(next_operation(of("LoadBalancer", BALANCED), Observed(NOW, endpoint=BALANCED)))


TAKEN = "192.0.2.50 is that of cluster default/old: use another"
# Edits by which operations give machines other settings, the names of the API among them.
SETTLING: dict[str, Json] = {
    "reconfigure": {"kubernetes": {"apiServer": {"extraArgs": {"v": "3"}}}},
    "upgrade": {"version": "1.36.3"},
}


@pytest.mark.parametrize("name", ["Local", "Service", "asked", "named", "Ingress", "Gateway", "VIP"])
def test_whose_names_are_known_waits_for_nobody(name: str) -> None:
    assert operation(next_operation(of(name), Observed(NOW))).operation == "deploy"
    held = wait(next_operation(of(name), Observed(NOW, taken="another's")))
    assert (str(held.reason), held.message) == ("WaitingForEndpoint", "spec.endpoint: another's")


@pytest.mark.parametrize("operation_name", SETTLING)
def test_machines_do_not_get_an_address_that_another_cluster_has_and_keep_their_own(operation_name: str) -> None:
    old: Json = {"version": "1.36.1"}
    edit: Json = {**old, **SETTLING[operation_name]}
    world = deployed(of("Service", **old), taken=TAKEN)
    held = wait(next_operation(of("VIP", applied=world.applied, **edit), world))
    assert (str(held.reason), held.message) == ("WaitingForEndpoint", f"spec.endpoint: {world.taken}")
    assert next_operation(of("Service", applied=world.applied, **old), world) == Nothing(), "taken back"
    world = deployed(of("VIP", **old), taken=TAKEN)
    other = of("VIP", applied=world.applied, **edit)
    assert operation(next_operation(other, world)).operation == operation_name, "what it has is not new"


def test_every_operation_that_gives_machines_the_names_of_the_api_waits_for_one_that_is_free() -> None:
    others = {duty.operation for duty in DUTIES if decide.endpoint_missing not in duty.holds}  # which asks that first
    held = {duty.operation for duty in DUTIES if decide.endpoint_taken in duty.holds}
    assert held == {name for name, parts in CHANGES.items() if "settings" in parts} & others == set(SETTLING)


@pytest.mark.parametrize(
    ("given", "field"),
    [("192.0.2.70", "address"), ("2001:db8::7", "address"), ("lb.example.com", "host")],
)
def test_what_the_balancer_gave_stands_in_the_object(given: str, field: str) -> None:
    state = EndpointState(type="LoadBalancer", address=given)
    obj = deployment(endpoint=ENDPOINTS["LoadBalancer"])
    assert decide.filled_endpoint(obj, state)["spec"]["endpoint"] == {"type": "LoadBalancer", field: given}
    for name in ("asked", "named", "Ingress", "VIP"):
        own = deployment(endpoint=ENDPOINTS[name])
        assert decide.filled_endpoint(own, state) == own
    assert decide.filled_endpoint(deployment(), state) == deployment()


# --- objects -----------------------------------------------------------------------------------------------------
def ready(*planes: Backend) -> dict[str, bool]:
    made = decide.endpoint_slice(owner(), planes)
    return {one["addresses"][0]: one["conditions"]["ready"] for one in made["endpoints"]}


def test_a_control_plane_that_is_down_is_not_asked_and_where_all_are_all_are() -> None:
    up, down = Backend("192.0.2.11"), Backend("192.0.2.12", down=True)
    assert ready(down, up) == {"192.0.2.11": True, "192.0.2.12": False}
    assert ready(down, Backend("192.0.2.11", down=True)) == {"192.0.2.11": True, "192.0.2.12": True}


def test_a_slice_is_of_one_family_and_of_its_service() -> None:
    made = decide.endpoint_slice(owner(), [Backend("2001:db8::1")])
    assert made["addressType"] == "IPv6"
    assert made["metadata"]["labels"]["kubernetes.io/service-name"] == made["metadata"]["name"] == "guest-api"
    assert made["ports"] == [{"name": "https", "port": 6443, "protocol": "TCP"}]
    assert decide.endpoint_slice(owner(), [Backend("192.0.2.1")])["addressType"] == "IPv4"


@pytest.mark.parametrize(
    ("name", "more", "spec"),
    [
        ("Service", {}, {"type": "ClusterIP", "port": 6443, "loadBalancerIP": None}),
        ("Ingress", {}, {"type": "ClusterIP", "port": 6443, "loadBalancerIP": None}),
        ("LoadBalancer", {"className": "c"}, {"type": "LoadBalancer", "port": 6443, "loadBalancerClass": "c"}),
        ("asked", {}, {"type": "LoadBalancer", "port": 6443, "loadBalancerIP": "192.0.2.60"}),
        ("named", {}, {"type": "LoadBalancer", "port": 443, "loadBalancerIP": None}),
    ],
)
def test_the_service_of_each_type(name: str, more: Json, spec: Json) -> None:
    found = decide.service(owner(), endpoint(name, **more))["spec"]
    (port,) = found.pop("ports")
    assert "selector" not in found
    assert (port["name"], port["protocol"], port["targetPort"]) == ("https", "TCP", 6443)
    assert {**found, "port": port["port"]} == {"loadBalancerIP": None, **spec}


def ingress_class(name: str, controller: str, *, default: bool = False) -> Json:
    notes = {"ingressclass.kubernetes.io/is-default-class": "true"} if default else {}
    return {"metadata": {"name": name, "annotations": notes}, "spec": {"controller": controller}}


@pytest.mark.parametrize("controller", [*decide.PASSTHROUGH, "haproxy.org/ingress-controller/prod"])
def test_an_ingress_passes_tls_through_as_its_controller_does(controller: str) -> None:
    made = decide.ingress(owner(), endpoint("Ingress"), [ingress_class("edge", controller, default=True)])
    known = next(given for one, given in decide.PASSTHROUGH.items() if controller.startswith(one))
    assert known.items() <= made["metadata"]["annotations"].items()
    (rule,) = made["spec"]["rules"]
    assert (made["spec"]["ingressClassName"], rule["host"]) == ("edge", "api.example.com")
    assert rule["http"]["paths"][0]["backend"] == {"service": {"name": "guest-api", "port": {"number": 6443}}}


OTHER = "example.com/controller"


@pytest.mark.parametrize(
    ("classes", "more", "reason", "words"),
    [
        ([], {}, "NoIngressClass", "no IngressClass is the default; there are: none: install a controller"),
        ([("a", OTHER, False)], {}, "NoIngressClass", "there are: a: set spec.endpoint.className"),
        ([("a", OTHER, True)], {"className": "b"}, "NoIngressClass", "there is no IngressClass b; there are: a"),
        ([("a", OTHER, True)], {}, "PassthroughUnknown", "set spec.endpoint.annotations"),
        *(([("a", one, True)], {}, "NoPassthrough", "set type to Gateway") for one in decide.ENDS_TLS),
    ],
)
def test_what_cannot_pass_tls_through_is_refused(
    classes: list[tuple[str, str, bool]], more: Json, reason: str, words: str
) -> None:
    there = [ingress_class(name, controller, default=default) for name, controller, default in classes]
    with pytest.raises(EndpointRefused, match=words) as refused:
        decide.ingress(owner(), endpoint("Ingress", **more), there)
    assert refused.value.reason == reason


def test_annotations_of_ones_own_are_for_controllers_that_are_not_known() -> None:
    own = {"example.com/passthrough": "yes"}
    made = decide.ingress(owner(), endpoint("Ingress", annotations=own), [ingress_class("a", OTHER, default=True)])
    assert made["metadata"]["annotations"] == {**own, decide.OWN_ANNOTATIONS: "example.com/passthrough"}


def test_annotations_that_are_not_asked_for_any_more_go() -> None:
    found = decide.service(owner(), endpoint("Service", annotations={"a": "1", "b": "2"}))
    found["metadata"]["annotations"]["of/others"] = "stays"
    wanted = decide.service(owner(), endpoint("Service", annotations={"b": "2"}))
    assert decide.surplus(found, wanted) == {"a": None}
    assert decide.surplus(found, decide.service(owner(), endpoint("Service"))) == {
        "a": None,
        "b": None,
        decide.OWN_ANNOTATIONS: None,
    }
    assert decide.surplus(found, found) == {}


@pytest.mark.parametrize(
    ("before", "after", "new"),
    [
        (None, "a", True),
        ("a", "b", True),
        ("a", "a", False),
        ("a", None, True),  # taken back
        (None, None, False),
    ],
)
def test_a_service_of_another_class_is_another_service(before: str | None, after: str | None, new: bool) -> None:
    found, wanted = (decide.service(owner(), endpoint("LoadBalancer", className=one)) for one in (before, after))
    assert decide.must_be_new(found, wanted) is new
    assert not decide.must_be_new(decide.service(owner(), endpoint("Service")), wanted)
    if before is not None:
        del found["metadata"]["annotations"]
        assert decide.must_be_new(found, wanted) is (after == "b"), "the infra cluster filled it in, and it stays"


LISTENER = {"name": "api", "protocol": "TLS", "port": 8443, "tls": {"mode": "Passthrough"}}
ENDED = {"name": "web", "protocol": "HTTPS", "port": 443, "tls": {"mode": "Terminate"}}


def gateway(*listeners: Json) -> Json:
    return {"metadata": {"name": "edge"}, "spec": {"listeners": list(listeners)}}


def test_the_listener_is_the_one_that_passes_tls_through() -> None:
    there = gateway(ENDED, LISTENER)
    assert decide.listener_of(there, endpoint("Gateway"), "default") == LISTENER
    by_name = endpoint("Gateway", gatewayRef={"name": "edge", "sectionName": "api"})
    assert decide.listener_of(there, by_name, "default") == LISTENER


@pytest.mark.parametrize(
    ("found", "section", "reason", "words"),
    [
        (None, None, "NoGateway", "there is no Gateway default/edge"),
        (gateway(), None, "NoPassthrough", "any listener of Gateway default/edge"),
        (gateway(ENDED), None, "NoPassthrough", "tls.mode Passthrough"),
        (gateway(LISTENER, ENDED), "web", "NoPassthrough", "listener web of"),
    ],
)
def test_a_gateway_that_does_not_pass_tls_through_is_refused(
    found: Json | None, section: str | None, reason: str, words: str
) -> None:
    asked = endpoint("Gateway", gatewayRef={"name": "edge", **({"sectionName": section} if section else {})})
    with pytest.raises(EndpointRefused, match=words) as refused:
        decide.listener_of(found, asked, "default")
    assert refused.value.reason == reason


def test_a_route_leads_from_the_gateway_to_the_service() -> None:
    asked = endpoint("Gateway", gatewayRef={"name": "edge", "namespace": "net", "sectionName": "api"})
    spec = decide.tls_route(owner(), asked, TLS_ROUTE)["spec"]
    assert spec == {
        "parentRefs": [{"name": "edge", "namespace": "net", "sectionName": "api"}],
        "hostnames": ["api.example.com"],
        "rules": [{"backendRefs": [{"name": "guest-api", "port": 6443}]}],
    }


# --- what is seen --------------------------------------------------------------------------------------------------
def served(*given: Json) -> Json:
    return {"metadata": {"name": "guest-api"}, "status": {"loadBalancer": {"ingress": list(given)}}}


@pytest.mark.parametrize(
    ("given", "name", "seen"),
    [
        ((), "LoadBalancer", (None, "WaitingForAddress", "")),
        (({"ip": "192.0.2.70"},), "LoadBalancer", (True, "Ready", "192.0.2.70")),
        (({"hostname": "LB.example"},), "LoadBalancer", (True, "Ready", "lb.example")),
        (({}, {"ip": "192.0.2.71"}), "LoadBalancer", (True, "Ready", "192.0.2.71")),
        (({"ip": "192.0.2.60"},), "asked", (True, "Ready", "192.0.2.60")),
        (({"ip": "192.0.2.61"},), "asked", (False, "OtherAddress", "192.0.2.61")),
        (({"hostname": "lb.example."},), "LoadBalancer", (True, "Ready", "lb.example")),
        (({"hostname": "my_lb.example"},), "LoadBalancer", (False, "NameNotUsable", "")),
    ],
)
def test_the_address_of_a_balancer_is_what_its_service_says(given: tuple[Json, ...], name: str, seen: Any) -> None:
    found = decide.balancer_seen(served(*given), endpoint(name))
    assert (found.ready, found.reason, found.address) == seen


def parent(kind: str, status: str) -> Json:
    return {"conditions": [{"type": kind, "status": status, "reason": "Why", "message": "words"}]}


@pytest.mark.parametrize(
    ("parents", "ready", "reason"),
    [
        ([], None, "WaitingForGateway"),
        ([parent("Accepted", "True")], True, "Ready"),
        ([parent("Accepted", "False")], False, "RouteRefused"),
        ([parent("ResolvedRefs", "False")], False, "RouteRefused"),
    ],
)
def test_a_route_is_what_its_gateway_says(parents: list[Json], ready: bool | None, reason: str) -> None:
    found = decide.route_seen({"metadata": {"name": "guest-api"}, "status": {"parents": parents}}, LISTENER)
    assert (found.ready, found.reason, found.port) == (ready, reason, 8443)


WAITING = decide.balancer_seen(served(), endpoint("LoadBalancer"))
LONG = timedelta(seconds=decide.WAIT_SECONDS)


def test_nobody_who_answers_within_a_time_is_said_and_whoever_comes_late_is_taken() -> None:
    first = decide.settled(None, "LoadBalancer", WAITING, NOW)
    assert (first.ready, first.reason, first.since) == (None, "WaitingForAddress", stamp(NOW))
    soon = decide.settled(first, "LoadBalancer", WAITING, NOW + LONG / 2)
    assert soon == first
    late = decide.settled(soon, "LoadBalancer", WAITING, NOW + LONG)
    assert (late.ready, late.reason) == (False, "NoLoadBalancer")
    assert "install one, such as MetalLB" in late.message
    assert decide.settled(late, "LoadBalancer", WAITING, NOW + LONG * 3) == late
    answer = decide.balancer_seen(served({"ip": "192.0.2.70"}), endpoint("LoadBalancer"))
    assert decide.settled(late, "LoadBalancer", answer, NOW + LONG * 4).ready is True


def test_an_address_is_known_until_there_is_another_one_but_not_that_of_another_type() -> None:
    again = decide.settled(BALANCED, "LoadBalancer", WAITING, NOW)
    assert (again.ready, again.address) == (None, "192.0.2.70")
    assert (
        decide.settled(BALANCED, "Ingress", EndpointSeen(None, EndpointReason.WAITING_FOR_ADDRESS, ""), NOW).address
        == ""
    )


@pytest.mark.parametrize(
    ("name", "state", "usable", "said"),
    [
        ("Local", None, False, (True, "Local")),
        ("Ingress", None, True, (None, "NotYet")),
        ("Ingress", BALANCED, True, (None, "NotYet")),
        ("LoadBalancer", BALANCED, False, (False, "NotSigned")),
        ("LoadBalancer", BALANCED, True, (None, "NotYet")),
        ("LoadBalancer", BALANCED.model_copy(update={"url": "https://192.0.2.70:6443"}), True, (True, "Ready")),
    ],
)
def test_the_condition_says_what_is_seen(name: str, state: EndpointState | None, usable: bool, said: Any) -> None:
    assert decide.told(state, endpoint(name), usable=usable)[:2] == said


def test_every_reason_is_explained() -> None:
    page = (ROOT / "docs" / "operator" / "endpoint.md").read_text(encoding="utf-8").split("\n## Conditions\n")[1]
    cells = re.findall(r"^\|([^|]+)\|", page.split("\n## ")[0], re.MULTILINE)
    assert re.findall(r"`(\w+)`", "".join(cells)) == [str(reason) for reason in EndpointReason]


# --- what is wrong -------------------------------------------------------------------------------------------------
def asking(name: str, host: str, created: str, kind: str = "Ingress") -> Json:
    made = owner(name, creationTimestamp=created)
    made["spec"]["endpoint"] = {"type": kind, "host": host}
    return made


def test_a_name_is_that_of_the_older_cluster() -> None:
    old, young = (
        asking("a", "api.example.com", "2026-01-01T00:00:00Z"),
        asking("b", "api.example.com", "2026-01-02T00:00:00Z"),
    )
    refused = decide.taken(young, lambda: [old, young])
    assert refused is not None
    assert str(refused) == "api.example.com is that of cluster default/a: use another"
    assert decide.taken(old, lambda: [old, young]) is None
    assert decide.taken(asking("b", "other.example.com", "2026-01-02T00:00:00Z"), lambda: [old]) is None
    assert (
        decide.taken(asking("b", "api.example.com", "2026-01-02T00:00:00Z", "Local"), lambda: pytest.fail("asked"))
        is None
    )


@pytest.mark.parametrize(("address", "taken"), [("2001:DB8:0::5", True), ("2001:db8::5", True), ("2001:db8::6", False)])
def test_an_address_is_the_same_however_it_is_written(address: str, taken: bool) -> None:
    made = [owner("a", creationTimestamp="2026-01-01T00:00:00Z"), owner("b", creationTimestamp="2026-01-02T00:00:00Z")]
    for one, text in zip(made, ("2001:db8::5", address), strict=True):
        one["spec"]["endpoint"] = {"type": "VIP", "address": text}
    assert (decide.taken(made[1], lambda: made) is not None) is taken


OLD = "2026-01-01T00:00:00Z"


def placed(name: str, address: str, namespace: str = "default", uid: str = "", **where: Any) -> Json:
    """Return a Machine at an address, of the cluster with a uid, if any."""
    claim = {"claim": {"cluster": f"c-{uid}", "uid": uid}} if uid else {}
    spec = claim if where else {"address": address, **claim}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec, "status": where}


# By what is compared: a Machine, and the message, "" where nothing is wrong.
MEETINGS: dict[str, tuple[Json, str]] = {
    "another cluster's": (placed("m", "192.0.2.50", uid="u2"), "Machine default/m of cluster default/c-u2: use one"),
    "nobody's": (placed("m", "192.0.2.50"), "192.0.2.50 is the address of Machine default/m: use one that nobody has"),
    "its own": (placed("m", "192.0.2.50", uid="u1"), ""),  # address_mistakes tells of it
    "another address": (placed("m", "192.0.2.51", uid="u2"), ""),
    "of one pool": (placed("m", "192.0.2.50", "other", "u2"), "Machine other/m of cluster other/c-u2"),
    "of another pool": (placed("m", "192.0.2.50", "other", "u3"), ""),
    "nobody's elsewhere": (placed("m", "192.0.2.50", "other"), ""),
    "made": (placed("m", "", uid="u2", infrastructure={"address": "192.0.2.50"}), "Machine default/m of cluster"),
}


@pytest.mark.parametrize("case", MEETINGS)
def test_a_virtual_address_is_no_machines(case: str) -> None:
    machine, words = MEETINGS[case]
    clusters = []
    for uid, pool in {"u1": "rack-a", "u2": "rack-a", "u3": "rack-b"}.items():
        one = owner(f"c-{uid}", creationTimestamp=OLD, uid=uid)
        one["spec"] |= {"network": {"pool": pool}}
        clusters.append(one)
    clusters[0]["spec"]["endpoint"] = {"type": "VIP", "address": "192.0.2.50"}
    found = decide.taken(clusters[0], lambda: clusters, lambda: [machine])
    assert words in str(found or "")
    assert (found is None) == (not words)
    clusters[0]["spec"]["endpoint"] = {"type": "LoadBalancer", "address": "192.0.2.50"}
    assert decide.taken(clusters[0], lambda: clusters, lambda: [machine]) is None  # which others give out


def test_an_address_that_nobody_can_give_to_the_object_is_not_given() -> None:
    made = {**owner(), "spec": {"endpoint": {"type": "LoadBalancer"}}}
    state = EndpointState(type="LoadBalancer", address="my_lb.example")
    assert decide.filled_endpoint(made, state) == made


@pytest.mark.parametrize(
    ("address", "network", "words"),
    [
        ("192.0.2.50", {}, ""),
        ("192.0.2.10", {}, "192.0.2.10 is the address of Machine cp-0: use one that nobody has"),
        ("10.243.0.9", {}, "in the cluster's own network 10.243.0.0/16 (pods)"),
        ("10.95.0.9", {}, "in the cluster's own network 10.95.0.0/16 (services)"),
        ("2001:db8::5", {}, "is not of IPv4: use the family that comes first"),
        ("192.0.2.50", {"ipFamilies": ["IPv6"]}, "is not of IPv6"),
    ],
)
def test_a_virtual_address_is_free_and_of_the_machines_network(address: str, network: Json, words: str) -> None:
    cd = defaulted(deployment(endpoint={"type": "VIP", "address": address}, network=network))
    found = [mistake.text for mistake in decide.address_mistakes(cd, MACHINES)]
    assert len(found) == bool(words)
    assert all(text.startswith("spec.endpoint.address: ") and words in text for text in found)

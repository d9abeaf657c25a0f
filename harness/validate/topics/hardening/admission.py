"""Hardened admission: Pod Security, addresses of Services, event rate limits and seccomp, by trying them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from secrets import token_hex
from typing import Any

from harness.kube import Cluster
from harness.kube.client import Unreachable
from harness.kube.resources import EVENT, NAMESPACE, POD, SERVICE
from harness.validate.facts.cluster import Json
from harness.validate.findings import Mismatch
from harness.validate.pods import ensure_namespace
from harness.validate.probes import words_of
from harness.validate.topics.hardening.benchmark import against
from harness.validate.topics.hardening.facts import HardeningFacts

PLACE = "default"  # a namespace without labels, of which the cluster's defaults hold
CREATED, FORBIDDEN, TOO_MANY = 201, 403, 429
SAYS = "PodSecurity"
OUTSIDE = "192.0.2.7"  # of RFC 5737, for documentation
EVENTS = "vmatrix-events"
AT_ONCE = 8
# What a pod asks for beyond the level baseline, by the numbers of controls.
REACHES: Sequence[tuple[str, str, Mapping[str, Any], Mapping[str, Any]]] = (
    ("5.2.1 5.2.2", "a privileged container", {}, {"securityContext": {"privileged": True}}),
    ("5.2.1 5.2.3", "the machine's processes", {"hostPID": True}, {}),
    ("5.2.1 5.2.4", "the machine's IPC", {"hostIPC": True}, {}),
    ("5.2.1 5.2.5", "the machine's network", {"hostNetwork": True}, {}),
    (
        "5.2.1 5.2.10",
        "a HostProcess container of Windows",
        {
            "hostNetwork": True,
            "os": {"name": "windows"},
            "securityContext": {"windowsOptions": {"hostProcess": True}},
        },
        {},
    ),
    ("5.2.1 5.2.11", "a folder of the machine", {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, {}),
    ("5.2.1 5.2.12", "a port of the machine", {}, {"ports": [{"containerPort": 80, "hostPort": 80}]}),
)


def admitted_pods(api: Cluster) -> list[Mismatch]:
    """Return pods that may reach for their machine, and the refusal of one that does not."""
    plain = _try(api, POD, _pod({}, {}))
    mismatches = (
        [] if plain[0] == CREATED else list(against("5.2.1", [_other("a pod that asks for nothing", CREATED, plain)]))
    )
    for numbers, what, spec, container in REACHES:
        answer = _try(api, POD, _pod(spec, container))
        if answer[0] != FORBIDDEN or SAYS not in answer[1]:
            mismatches += against(numbers, [_other(f"a pod that asks for {what}", FORBIDDEN, answer)])
    return mismatches


def admitted_addresses(api: Cluster) -> list[Mismatch]:
    """Return Services that may claim addresses outside of the cluster."""

    def service(**more: Any) -> Json:
        spec = {"selector": {"app": "none"}, "ports": [{"port": 80}], **more}
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "vmatrix", "namespace": PLACE},
            "spec": spec,
        }

    plain, claims = _try(api, SERVICE, service()), _try(api, SERVICE, service(externalIPs=[OUTSIDE]))
    mismatches = [] if plain[0] == CREATED else [_other("a Service", CREATED, plain)]
    mismatches += (
        [] if claims[0] == FORBIDDEN else [_other(f"a Service with the external address {OUTSIDE}", FORBIDDEN, claims)]
    )
    return list(against("1.2.3", mismatches))


def unlimited_events(api: Cluster, limits: Sequence[Mapping[str, Any]]) -> list[Mismatch]:
    """Return a mismatch unless events of one namespace are refused once there are more than its limit.

    Args:
        limits: as the variable has them. Of those, that of a namespace is tried.
    """
    burst = next((int(limit["burst"]) for limit in limits if limit["type"] == "Namespace"), 0)
    if not burst:
        return list(against("1.2.9", [Mismatch("cluster_event_rate_limits", "a limit for each Namespace", "none")]))
    namespace = f"{EVENTS}-{token_hex(4)}"  # a new one: that of a look before may be on its way out, or at its limit
    ensure_namespace(api, namespace)
    try:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            codes = list(pool.map(lambda place: _event(api, namespace, place), range(4 * burst)))
    finally:
        api.delete(NAMESPACE, namespace)
    mismatches = (
        [] if CREATED in codes else [Mismatch("events of a namespace", "some admitted", f"{sorted(set(codes))}")]
    )
    if TOO_MANY not in codes:
        mismatches.append(
            Mismatch(f"{len(codes)} events of a namespace", "429 for some of them", f"{sorted(set(codes))}")
        )
    return list(against("1.2.9", mismatches))


def _event(api: Cluster, namespace: str, place: int) -> int:
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"vmatrix-{place}", "namespace": namespace},
        "involvedObject": {"kind": "Namespace", "name": namespace, "namespace": namespace},
        "reason": "Tried",
        "message": "a check tries the limit of events",
        "type": "Normal",
    }
    try:
        return int(api.send("POST", EVENT.path(namespace), body=body).code)
    except Unreachable:
        return 0


def _pod(spec: Mapping[str, Any], container: Mapping[str, Any]) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "vmatrix", "namespace": PLACE},
        "spec": {"containers": [{"name": "c", "image": "none", **container}], **spec},
    }


def _try(api: Cluster, kind: Any, body: Json) -> tuple[int, str]:
    answer = api.send("POST", kind.path(PLACE), body=body, query={"dryRun": "All"})
    return answer.code, words_of(answer.body)


def _other(what: str, status: int, answer: tuple[int, str]) -> Mismatch:
    return Mismatch(what, str(status), f"{answer[0]}: {answer[1][:300]}" if answer[1] else str(answer[0]))


def unconfined(statuses: Mapping[str, str], machines: Mapping[str, HardeningFacts]) -> Iterator[Mismatch]:
    """Yield nodes whose pods run without a seccomp profile.

    A machine that is a container has filters itself, which its pods inherit: a profile is one more.

    Args:
        statuses: /proc/self/status of a process of a pod that asks for no profile, by node.
        machines: what each machine says of itself.
    """
    for node, text in statuses.items():
        own, filters = _filters(machines[node].status if node in machines else ""), _filters(text)
        if own is None or filters is None or filters <= own:
            observed = "unknown" if filters is None else str(filters)
            requirement = f"more seccomp filters than the machine has itself ({'unknown' if own is None else own})"
            yield from against("4.2.14", [Mismatch(f"{node}: a pod without a profile", requirement, observed)])


def _filters(status: str) -> int | None:
    """Return the number of seccomp filters of a process (Linux 5.9 and later)."""
    filters = next((line.split()[1] for line in status.splitlines() if line.startswith("Seccomp_filters:")), None)
    return None if filters is None else int(filters)

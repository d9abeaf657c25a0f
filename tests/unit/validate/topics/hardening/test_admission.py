"""What an API server admits although it must not is found, and so is the refusal of what it must admit."""

from __future__ import annotations

from typing import Any

import pytest

from harness.kube.failures import Answer
from harness.validate.topics.hardening.admission import admitted_addresses, admitted_pods, unconfined, unlimited_events
from tests.unit.validate import hardened

LIMITS = [{"type": "Namespace", "qps": 1, "burst": 5}]


class Admission:
    """An API that refuses as a hardened one does, but for what it is told to let pass."""

    def __init__(self, *lets: str, plain: int = 201) -> None:
        self.lets, self.plain, self.events, self.deleted = lets, plain, 0, ""
        self.made: list[str] = []

    def send(self, method: str, path: str, *, body: Any, query: Any = None) -> Answer:
        if body["kind"] == "Event":
            self.events += 1
            return Answer(201 if "events" in self.lets or self.events <= 5 else 429, None, ())
        assert query == {"dryRun": "All"}
        spec = body["spec"]
        container = spec.get("containers", [{}])[0]
        asks = [
            name for name in (*spec, *container) if name not in ("containers", "name", "image", "selector", "ports")
        ]
        asks += ["hostPort"] if any("hostPort" in port for port in container.get("ports", ())) else []
        if asks and not set(asks) & set(self.lets):
            return Answer(403, {"message": 'pods "vmatrix" is forbidden: violates PodSecurity "baseline:latest"'}, ())
        return Answer(self.plain, {}, ())

    def ensure(self, _: Any, body: Any) -> None:
        self.made.append(body["metadata"]["name"])
        self.events = 0

    def delete(self, _: Any, name: str) -> None:
        self.deleted = name


def test_a_hardened_api_server_passes() -> None:
    api: Any = Admission()
    assert admitted_pods(api) == []
    assert admitted_addresses(api) == []
    assert unlimited_events(api, LIMITS) == []
    assert api.deleted == api.made[-1]
    assert unlimited_events(api, LIMITS) == []
    assert len(set(api.made)) == 2, "the first one may still be on its way out"


@pytest.mark.parametrize(
    ("lets", "words"),
    [
        ("securityContext", "CIS 5.2.1, 5.2.2: a pod that asks for a privileged container: expected 403; saw 201"),
        ("hostPID", "CIS 5.2.1, 5.2.3"),
        ("hostIPC", "CIS 5.2.1, 5.2.4"),
        ("hostNetwork", "CIS 5.2.1, 5.2.5"),
        ("os", "CIS 5.2.1, 5.2.10"),
        ("volumes", "CIS 5.2.1, 5.2.11"),
        ("hostPort", "CIS 5.2.1, 5.2.12"),
    ],
)
def test_a_pod_that_is_admitted_is_found(lets: str, words: str) -> None:
    api: Any = Admission(lets)
    found = list(map(str, admitted_pods(api)))
    assert any(words in one for one in found), found


def test_an_api_server_that_refuses_everything_is_found() -> None:
    api: Any = Admission(plain=403)
    assert "a pod that asks for nothing: expected 201; saw 403" in str(admitted_pods(api)[0])
    assert "a Service: expected 201" in str(admitted_addresses(api)[0])


def test_an_address_outside_and_events_without_a_limit_are_found() -> None:
    api: Any = Admission("externalIPs", "events")
    (address,) = admitted_addresses(api)
    assert str(address).startswith("CIS 1.2.3: a Service with the external address 192.0.2.7: expected 403")
    (events,) = unlimited_events(api, LIMITS)
    assert str(events) == "CIS 1.2.9: 20 events of a namespace: expected 429 for some of them; saw [201]"
    (unset,) = unlimited_events(api, [{"type": "Server", "qps": 1, "burst": 1}])
    assert "expected a limit for each Namespace" in str(unset)


def test_a_pod_without_a_profile_is_found() -> None:
    bare, contained = "Seccomp:\t0\nSeccomp_filters:\t0\n", "Name:\tcat\nSeccomp:\t2\nSeccomp_filters:\t1\n"
    assert list(unconfined({"w-0": contained}, hardened.seen())) == []
    (found, silent) = unconfined({"w-0": bare, "cp-0": "not found"}, hardened.seen())
    wanted = "expected more seccomp filters than the machine has itself (0); saw 0"
    assert str(found) == f"CIS 4.2.14: w-0: a pod without a profile: {wanted}"
    assert silent.seen == "unknown"
    (inherited,) = unconfined({"w-0": contained}, hardened.seen(lambda raw: raw.update(status=contained), of="w-0"))
    assert inherited.seen == "1", "a filter of the machine, which is a container, is not a profile of a pod"
    (untold,) = unconfined({"w-0": contained}, {})
    assert "unknown" in str(untold)

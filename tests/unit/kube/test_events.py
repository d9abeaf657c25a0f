"""Events that are written."""

from __future__ import annotations

from typing import Any, cast

from harness.kube.client import Cluster
from harness.kube.events import Events

Json = dict[str, Any]


class Api:
    """Remembers the events written."""

    def __init__(self) -> None:
        self.made: list[Json] = []
        self.counted: list[Json] = []

    def ensure(self, _: object, body: Json) -> Json:
        self.made.append(body)
        return body

    def merge(self, _: object, name: str, patch: Json, namespace: str) -> Json:
        self.counted.append({"name": name, **patch})
        return {}


ABOUT = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a", "uid": "u"}}


def test_repeated_event_is_counted() -> None:
    api = Api()
    events = Events(cast(Cluster, api))
    for _ in range(3):
        events.warning(ABOUT, "SyncFailed", "no disk", component="virt-handler")
    events.warning(ABOUT, "SyncFailed", "another", component="virt-handler")
    assert [e["message"] for e in api.made] == ["no disk", "another"]
    assert [e["count"] for e in api.counted] == [2, 3]
    assert {e["name"] for e in api.counted} == {api.made[0]["metadata"]["name"]}

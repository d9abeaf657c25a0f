"""The typed client sends a Cluster's requests, with its login, and gives models and errors of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import ApiException, CoreV1Api, V1ConfigMap, V1ObjectMeta

from harness.kube.client import Cluster
from harness.kube.typed_client import typed_client

Seen = list[tuple[str, str, dict[str, str], Any]]


@pytest.fixture
def seen() -> Seen:
    """Return the requests that the server got: method, path, headers, content."""
    return []


@pytest.fixture
def cluster(tmp_path: Path, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    class Server(BaseHTTPRequestHandler):
        def answer(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"null")
            seen.append((self.command, self.path, dict(self.headers), content))
            refused = self.path.endswith("/secrets")
            node = {"metadata": {"name": "cp-0"}}
            body = {"kind": "Status", "reason": "Forbidden"} if refused else content or {"items": [node]}
            self.send_response(403 if refused else 200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        do_GET = do_POST = do_PATCH = answer  # noqa: N815 - names of http.server

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    monkeypatch.setenv(
        "HTTP_PROXY", "http://192.0.2.1:1"
    )  # the client's own rules would ask it; loopback goes directly
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        config = {
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}/below"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {"as": "alice"}}],
            "current-context": "c",
        }
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(config))
        yield Cluster.from_kubeconfig(path)
        server.shutdown()


def test_models_come_back_and_the_clusters_login_is_sent(cluster: Cluster, seen: Seen) -> None:
    nodes = CoreV1Api(typed_client(cluster)).list_node(limit=5)
    assert [node.metadata and node.metadata.name for node in nodes.items] == ["cp-0"]
    ((method, path, headers, _),) = seen
    assert (method, path, headers["Impersonate-User"]) == ("GET", "/below/api/v1/nodes?limit=5", "alice")


def test_models_are_sent(cluster: Cluster, seen: Seen) -> None:
    api = CoreV1Api(typed_client(cluster))
    made = api.create_namespaced_config_map("ns", V1ConfigMap(metadata=V1ObjectMeta(name="c"), data={"a": "b"}))
    assert (made.data, seen[0][3]) == ({"a": "b"}, {"metadata": {"name": "c"}, "data": {"a": "b"}})
    api.patch_namespaced_config_map("c", "ns", {"data": {"a": "c"}}, _request_timeout=3)
    assert (seen[1][0], seen[1][3]) == ("PATCH", {"data": {"a": "c"}})


def test_a_refusal_is_the_clients_own_error(cluster: Cluster) -> None:
    with pytest.raises(ApiException, match="403") as refused:
        CoreV1Api(typed_client(cluster)).list_namespaced_secret("ns")
    assert "Forbidden" in str(refused.value.body)


def test_a_form_is_refused_and_not_dropped(cluster: Cluster, seen: Seen) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    client: Any = typed_client(cluster).rest_client
    with pytest.raises(ValueError, match="takes no form; send a body"):
        client.request("POST", f"{cluster.connection.server}/x", form, post_params=[("a", "b")])
    assert seen == []

"""What every request to an API says of itself."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from harness.kube.client import Cluster


class Particular(BaseHTTPRequestHandler):
    """Answers as KubeVirt's subresources do: only who takes anything gets more than a refusal."""

    def do_PUT(self) -> None:
        takes = {name.strip() for name in self.headers.get("Accept", "*/*").split(",")}
        self.send_response(202 if "*/*" in takes else 406)
        self.end_headers()
        self.wfile.write(b"406: Not Acceptable" if "*/*" not in takes else b"")

    def do_GET(self) -> None:
        """Answer in YAML unless JSON is asked for first."""
        first = self.headers.get("Accept", "").partition(",")[0]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"kind": "Pod"}).encode() if first == "application/json" else b"kind: Pod")

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Particular) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        config = {
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
            "current-context": "c",
        }
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(config))
        yield Cluster.from_kubeconfig(path)
        server.shutdown()


def test_an_api_that_names_no_answer_of_its_own_is_not_put_off(cluster: Cluster) -> None:
    assert cluster.send("PUT", "/apis/subresources.kubevirt.io/v1/x", body={}).code == 202


def test_json_is_asked_for_first(cluster: Cluster) -> None:
    assert cluster.request("GET", "/api/v1/pods/x") == {"kind": "Pod"}

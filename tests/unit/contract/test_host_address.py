"""The address at which importers reach this host: an instance's own, and never one that is the pod itself."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from harness import proc
from harness.embedded.operands import PROVISIONER
from harness.errors import BadInput
from harness.infra.host.layout import InstanceRecord, layout_of, save_record
from harness.paths import project_dir
from tests.contract.host_address import host_address


class _Api(BaseHTTPRequestHandler):
    """Answers with the cluster's storage classes, whatever it is asked."""

    provisioner = ""

    def do_GET(self) -> None:
        classes = [{"metadata": {"name": "usual"}, "provisioner": self.provisioner}]
        body = json.dumps({"metadata": {}, "items": classes}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name for it
        """Say nothing."""


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Serve an API on the loopback, as that of a kind cluster is; this host has no instance."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(_Api, "provisioner", "rancher.io/local-path")
    with ThreadingHTTPServer(("127.0.0.1", 0), _Api) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def kubeconfig(path: Path, server: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def test_an_instance_of_this_host_knows_its_address(api: str, tmp_path: Path) -> None:
    for name, index, server in (("other", 3, "http://127.0.0.1:1"), ("mine", 4, api)):
        layout = layout_of(name, "kind")
        save_record(layout, InstanceRecord(name, index, created="", boot=""))
        kubeconfig(layout.kubeconfig, server)

    assert host_address(kubeconfig(tmp_path / "copied", api)) == "10.217.0.1"


def test_a_loopback_address_is_refused_when_importers_run_in_pods(api: str, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", api)
    with pytest.raises(BadInput, match=r"cannot reach this host at 127\.0\.0\.1 \(the way to http"):
        host_address(path)
    with pytest.raises(BadInput, match=r"at localhost \(--host-address\)") as refused:
        host_address(path, "localhost")
    assert "--host-address ADDRESS" in refused.value.hint


def test_the_embedded_cdi_imports_on_this_host(api: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Api, "provisioner", PROVISIONER)
    assert host_address(kubeconfig(tmp_path / "config", api)) == "127.0.0.1"


def test_what_is_given_counts(api: str, tmp_path: Path) -> None:
    assert host_address(kubeconfig(tmp_path / "config", api), "192.0.2.7") == "192.0.2.7"


def test_the_contract_ends_with_one_error(api: str, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", api)
    words: proc.Argv = [
        sys.executable,
        "-m",
        "pytest",
        "tests/contract",
        "-p",
        "no:cacheprovider",
        "--kubeconfig",
        path,
    ]
    done = proc.run(words, timeout=60, check=False, cwd=project_dir())
    said = done.stdout + done.stderr
    assert done.returncode == pytest.ExitCode.USAGE_ERROR, said
    assert said.count("cannot reach this host at 127.0.0.1") == 1

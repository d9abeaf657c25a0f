"""Requests and tunnels go one way: by the proxy that kubectl would take, or directly as it would."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BadInput
from harness.kube.client import ApiFailure, Cluster, Unreachable
from harness.kube.kubeconfig import read_kubeconfig
from harness.kube.proxies import proxy_of
from harness.machines.reach.portforward import open_tunnel
from tests.unit.kube.kubeconfigs import ApiServer, Row, served
from tests.unit.kube.routes import ADDRESS, NAME, ROUTES, RecordingProxy, Route, proxy

VARIABLES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with served(tmp_path_factory.mktemp("pki")) as running:
        yield running


@pytest.fixture(autouse=True)
def _everything_is_here(monkeypatch: pytest.MonkeyPatch, api: ApiServer) -> None:
    """Lead whoever connects directly to the API, whatever its name; and have no proxy of this host."""
    plain = socket.getaddrinfo

    def found(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        return plain("127.0.0.1", port if host == "127.0.0.1" else api.port, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", found)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def config(api: ApiServer, folder: Path, server: str, proxy_url: str = "") -> Path:
    given = f"\nproxy-url: '{proxy_url}'" if proxy_url else ""
    return api.write(Row("proxy-url", "token: t", f"server: {server}\ntls-server-name: x{given}"), folder)


def used(path: Path, api: ApiServer, by: RecordingProxy) -> tuple[list[str], list[str]]:
    """Send a request and open a tunnel; return what the proxy was asked for, and for which paths the API was."""
    by.asked.clear()
    api.asked.clear()
    cluster = Cluster.from_kubeconfig(path)
    assert cluster.version() == "v1.36.3"
    with pytest.raises(ApiFailure):
        open_tunnel(cluster, "ns", "cp-0", 22)
    return list(by.asked), [where for where, _ in api.asked]


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_the_way_is_kubectls(route: Route, api: ApiServer, tmp_path: Path) -> None:
    by = RecordingProxy(0, 9)
    environment = {name: by.fill(value) for name, value in route.environment.items()}
    path = config(api, tmp_path, route.server, by.fill(route.proxy))
    found = proxy_of(read_kubeconfig(path), environment)
    assert (found.url if found is not None else None) == ("http://127.0.0.1:9" if route.by_proxy else None)


@pytest.mark.parametrize("route", [r for r in ROUTES if r.server in (NAME, ADDRESS)][:20], ids=str)
def test_requests_and_tunnels_go_it(
    route: Route, api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxy(api.port) as by:
        for name, value in route.environment.items():
            monkeypatch.setenv(name, by.fill(value))
        asked, paths = used(config(api, tmp_path, route.server, by.fill(route.proxy)), api, by)
    assert asked == ([route.server.removeprefix("https://")] * 2 if route.by_proxy else [])
    assert len(paths) == 2


@pytest.mark.parametrize("place", ["environment", "file"])
@pytest.mark.parametrize("socks", [False, True])
def test_a_proxy_that_wants_a_login_gets_it(
    socks: bool, place: str, api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxy(api.port, socks=socks) as by:
        url = by.fill("$LOGIN").replace("http", "socks5" if socks else "http")
        if place == "environment":
            monkeypatch.setenv("HTTPS_PROXY", url)
        asked, _ = used(config(api, tmp_path, NAME, url if place == "file" else ""), api, by)
    assert asked == ["api.example.test:6443"] * 2
    assert set(by.logins) == {"me:p@ss" if socks else "Basic bWU6cEBzcw=="}
    assert len(by.logins) == 2


def test_socks_takes_addresses_as_addresses(api: ApiServer, tmp_path: Path) -> None:
    with proxy(api.port, socks=True) as by:
        asked, _ = used(config(api, tmp_path, ADDRESS, f"socks5://127.0.0.1:{by.port}"), api, by)
    assert asked == ["192.0.2.10:6443"] * 2


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_a_proxy_that_does_not_answer_is_unreachable(scheme: str, api: ApiServer, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    cluster = Cluster.from_kubeconfig(config(api, tmp_path, NAME, f"{scheme}://127.0.0.1:{port}"))
    with pytest.raises(Unreachable, match="refused"):
        cluster.version()
    with pytest.raises(Unreachable, match="refused"):
        open_tunnel(cluster, "ns", "cp-0", 22)


def test_a_proxys_password_is_in_no_message(api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "ftp://me:secret@proxy:1")
    with pytest.raises(BadInput, match="HTTPS_PROXY: it must begin with") as refusal:
        Cluster.from_kubeconfig(config(api, tmp_path, NAME))
    assert "secret" not in refusal.value.summary + refusal.value.hint
    with pytest.raises(BadInput, match=r"proxy-url: 'ftp://proxy:1': it must begin with") as refusal:
        Cluster.from_kubeconfig(config(api, tmp_path, NAME, "ftp://me:secret@proxy:1"))
    assert "secret" not in refusal.value.summary + refusal.value.hint


def test_a_server_without_tls_by_a_proxy_gets_every_group(
    api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by = api.plain.server_address[1]
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{by}")
    user = "as: admin\nas-groups: [a, b]"
    path = api.write(Row("as-groups", user, "server: http://api.example.test"), tmp_path)
    api.asked.clear()
    Cluster.from_kubeconfig(path).send("GET", "/version")
    groups = (("impersonate-group", "a"), ("impersonate-group", "b"))
    assert [sent for _, sent in api.asked] == [(("impersonate-user", "admin"), *groups)]
    monkeypatch.setenv("REQUEST_METHOD", "GET")
    with pytest.raises(BadInput, match="HTTP_PROXY does not count where REQUEST_METHOD is set"):
        Cluster.from_kubeconfig(path)

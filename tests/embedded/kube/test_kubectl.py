"""kubectl itself with the kubeconfigs and proxies of the unit tests' tables: it sends and refuses what they say."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import proc
from harness.artifacts.store import Store
from harness.providers import KUBERNETES
from tests.unit.kube.kubeconfigs import TABLE, ApiServer, Row, served, wrong_types
from tests.unit.kube.routes import ROUTES, Route, proxy

SECONDS = 60.0
Kubectl = Callable[..., proc.Completed]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with served(tmp_path_factory.mktemp("pki")) as running:
        yield running


@pytest.fixture
def kubectl(tmp_path: Path) -> Kubectl:
    """Return kubectl with nothing of this host's settings; it asks an API for its version."""
    program = Store().obtain("kubectl", KUBERNETES).file("kubectl")

    def run(kubeconfig: Path, **environment: str) -> proc.Completed:
        known = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **environment}
        variables = [f"{name}={value}" for name, value in known.items()]
        words = [str(program), "--kubeconfig", str(kubeconfig), "--request-timeout=3s", "get", "--raw", "/version"]
        return proc.run(["env", "-i", *variables, *words], timeout=SECONDS, check=False)

    return run


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_it_sends_and_refuses_what_the_table_says(row: Row, api: ApiServer, kubectl: Kubectl, tmp_path: Path) -> None:
    path = api.write(row, tmp_path)
    api.asked.clear()
    done = kubectl(path)
    if row.asks:
        assert "Please enter Username" in done.stdout + done.stderr
    elif row.sends is not None:
        assert [sorted(sent) for where, sent in api.asked if where == "/version"] == [sorted(row.sends)], done
    elif not row.stricter:
        assert (done.returncode, api.asked) == (1, []), done


@pytest.mark.parametrize(("place", "value", "text"), tuple(wrong_types()))
def test_it_refuses_values_of_other_types(place: str, value: str, text: str, kubectl: Kubectl, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    done = kubectl(path)
    assert done.returncode == 1
    assert "error loading config file" in done.stderr


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_it_goes_the_way_that_the_table_says(route: Route, api: ApiServer, kubectl: Kubectl, tmp_path: Path) -> None:
    with proxy(api.port) as by:
        given = f"\nproxy-url: '{by.fill(route.proxy)}'" if route.proxy else ""
        path = api.write(Row("proxy-url", "token: t", f"server: {route.server}\ntls-server-name: x{given}"), tmp_path)
        kubectl(path, **{name: by.fill(value) for name, value in route.environment.items()})
    assert set(by.asked) == ({route.server.removeprefix("https://")} if route.by_proxy else set())

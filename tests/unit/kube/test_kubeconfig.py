"""Every key of a kubeconfig means what it means to kubectl, for requests and tunnels, or is refused by its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BadInput
from harness.kube.client import ApiFailure, Cluster
from harness.kube.kubeconfig import CONFIG, Named, files_in, files_of, namespace_of
from harness.machines.reach.portforward import open_tunnel
from tests.unit.kube.kubeconfigs import KEYS, TABLE, ApiServer, Row, served, wrong_types

TUNNEL = "/apis/subresources.kubevirt.io/v1/namespaces/ns/virtualmachineinstances/cp-0/portforward/22/tcp"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with served(tmp_path_factory.mktemp("pki")) as running:
        yield running


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


def shapes(shape: Any, name: str = "") -> Iterator[tuple[str, tuple[str, ...]]]:
    if isinstance(shape, Mapping):
        yield name, tuple(shape)
        for key, inner in shape.items():
            yield from shapes(inner, key)
    elif isinstance(shape, Named):
        yield from shapes(shape.shape, shape.content)
    elif isinstance(shape, list):
        yield from shapes(shape[0], name)


def test_the_keys_are_those_of_client_go() -> None:
    assert dict(shapes(CONFIG)) == KEYS


def test_each_key_is_in_the_table() -> None:
    by_type = {part for place, _, _ in wrong_types() for part in place.replace("[0]", "").split(".")}
    assert {key for keys in KEYS.values() for key in keys} <= {row.key for row in TABLE} | by_type


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
@pytest.mark.parametrize("row", [row for row in TABLE if row.sends is not None], ids=str)
def test_requests_and_tunnels_carry_what_kubectls_do(row: Row, api: ApiServer, tmp_path: Path) -> None:
    path = api.write(row, tmp_path)
    api.asked.clear()
    cluster = Cluster.from_kubeconfig(path)
    assert cluster.version() == "v1.36.3"
    with pytest.raises(ApiFailure):
        open_tunnel(cluster, "ns", "cp-0", 22)
    assert [(where, sorted(sent)) for where, sent in api.asked] == [
        (where, sorted(row.sends or ())) for where in ("/version", TUNNEL)
    ]


@pytest.mark.parametrize("row", [row for row in TABLE if row.sends is None], ids=str)
def test_what_has_no_meaning_is_refused_by_its_key(row: Row, api: ApiServer, tmp_path: Path) -> None:
    path = api.write(row, tmp_path)
    api.asked.clear()
    with pytest.raises(BadInput) as refusal:
        Cluster.from_kubeconfig(path)
    assert refusal.value.summary.startswith(f"kubeconfig {path} cannot be used: ")
    assert row.refused in refusal.value.summary
    assert refusal.value.hint
    assert api.asked == []


@pytest.mark.parametrize(("place", "value", "text"), tuple(wrong_types()))
def test_a_value_of_another_type_is_refused_by_its_place(place: str, value: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(f"current-context: none\n{text}" if "current-context" not in text else text)
    with pytest.raises(BadInput) as refusal:
        Cluster.from_kubeconfig(path)
    said = refusal.value.summary
    assert f": {place}" in said
    assert "cannot be used: line " in said
    assert "has no context" not in said
    assert refusal.value.hint


@pytest.mark.parametrize("secret", ["token: [top-secret]", "password: {top-secret: 1}", 'token: "top secret"'])
def test_no_message_shows_a_secret(secret: str, api: ApiServer, tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refusal:
        Cluster.from_kubeconfig(api.write(Row("token", secret), tmp_path))
    shown = f"{refusal.value.summary} {refusal.value.hint} {refusal.value.detail}"
    assert "top-secret" not in shown
    assert "top secret" not in shown


def test_of_several_files_the_first_that_has_an_entry_counts(api: ApiServer, tmp_path: Path) -> None:
    first, second = tmp_path / "first" / "kubeconfig", api.write(Row("token", "token: other"), tmp_path / "second")
    first.parent.mkdir()
    (first.parent / "token").write_text("of-the-first")
    first.write_text(
        "users: [{name: u, user: {tokenFile: token}}]\n"
        "contexts: [{name: z, context: {cluster: c, user: u, namespace: mine}}]\ncurrent-context: z\n"
    )
    files = files_of({"KUBECONFIG": f"{first}:{tmp_path / 'none'}::{second}:{first}"}, tmp_path)
    assert files == (first, tmp_path / "none", second)
    api.asked.clear()
    Cluster.from_kubeconfig(files).version()
    Cluster.from_kubeconfig(files, context="x").version()
    assert api.asked == [("/version", (("authorization", "Bearer of-the-first"),))] * 2
    assert namespace_of(files) == "mine"


def test_a_file_that_cannot_be_used_is_refused_among_others(api: ApiServer, tmp_path: Path) -> None:
    good, bad = api.write(Row("token", "token: t"), tmp_path / "good"), tmp_path / "bad"
    bad.write_text("users: 7\n")
    with pytest.raises(BadInput, match=f"kubeconfig {bad} cannot be used: line 1: users: it is a number, not a list"):
        Cluster.from_kubeconfig((good, bad))


def test_paths_start_at_the_folder_of_the_name_that_was_given(api: ApiServer, tmp_path: Path) -> None:
    there = api.write(Row("tokenFile", "tokenFile: token"), tmp_path / "there")
    here = tmp_path / "here"
    here.mkdir()
    (here / "kubeconfig").symlink_to(there)
    (here / "token").write_text("beside-the-link")
    api.asked.clear()
    Cluster.from_kubeconfig(here / "kubeconfig").version()
    assert api.asked == [("/version", (("authorization", "Bearer beside-the-link"),))]


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("", ["home/.kube/config"]),
        ("a", ["a"]),
        ("a::b:a", ["a", "b"]),
        ("apiVersion: v1\nkind: Config\n", None),
        ("\n-----BEGIN\nx", None),
        ("a\n", ["a\n"]),  # which is not a file, as kubectl finds, too
    ],
)
def test_the_content_of_a_file_is_not_its_name(value: str, names: list[str] | None) -> None:
    if names is None:
        with pytest.raises(BadInput, match="KUBECONFIG has several lines: the content of a file") as refused:
            files_of({"KUBECONFIG": value}, Path("home"))
        assert "type File" in refused.value.hint
        return
    assert [str(file) for file in files_in(files_of({"KUBECONFIG": value}, Path("home")))] == names

"""Credentials of before a rotation of CAs are found where the API still accepts them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.kube.failures import Unreachable, Untrusted
from harness.model import Cell, Phase
from harness.validate.phases import credentials
from harness.validate.phases.credentials import Credentials, accepted


def test_they_are_taken_before_what_refuses_them_afterwards() -> None:
    phases = (Phase("deploy"), Phase("backup"), Phase("reset", cluster=False), Phase("clone", data_of=1))
    cloned = Cell("c", {}, "s", phases, (), {})
    assert [index for index in range(4) if credentials.are_taken_before(cloned, index)] == [2]
    rotated = Cell("c", {}, "s", (Phase("deploy"), Phase("rotate-ca")), (), {})
    assert [index for index in range(2) if credentials.are_taken_before(rotated, index)] == [1]


def kubeconfig(name: str) -> dict[str, Any]:
    user = {"client-certificate-data": f"{name} certificate"}
    return {"clusters": [{"cluster": {"ca": name}}], "users": [{"name": "admin", "user": user}]}


class Answers:
    """An API that answers 401 or another code by the user, and by the CA that its client trusts."""

    def __init__(self, codes: dict[str, int], trusted: str) -> None:
        self.codes, self.trusted = codes, trusted

    def from_kubeconfig(self, path: Path) -> Any:
        config = json.loads(path.read_text(encoding="utf-8"))
        user = config["users"][0]["user"]
        code = self.codes.get(str(user.get("token") or user.get("client-certificate-data")), 401)
        return SimpleNamespace(send=lambda *_: self.send(config["clusters"][0]["cluster"]["ca"], code))

    def send(self, authority: str, code: int) -> Any:
        if self.trusted == "silent" and authority == "former":
            raise Unreachable("no answer", hint="", detail="")
        if authority != self.trusted and self.trusted != "silent" and self.trusted != "both":
            raise Untrusted("the certificate is of another CA", hint="", detail="")
        return SimpleNamespace(code=code)


@pytest.mark.parametrize(
    ("codes", "trusted", "expected"),
    [
        ({"new certificate": 200}, "new", []),
        ({"new certificate": 200, "former certificate": 200}, "new", ["200"]),
        ({"new certificate": 200, "former token": 403}, "new", ["403"]),
        ({"new certificate": 200}, "both", ["trusted, 200"]),
        ({"new certificate": 200}, "silent", ["no answer"]),
    ],
    ids=["refused", "certificate", "token", "authority", "silent"],
)
def test_what_is_accepted_of_before_is_found(
    codes: dict[str, int], trusted: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "Cluster", Answers(codes, trusted))
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig("new")), encoding="utf-8")
    former = Credentials(kubeconfig("former"), "former token")
    assert [one.seen for one in accepted(former, tmp_path / "kubeconfig")] == expected

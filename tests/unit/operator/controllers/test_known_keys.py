"""How long a key is remembered, and what makes it be read again."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from harness.kube.client import Cluster
from harness.kube.resources import SECRET, Resource
from harness.operator.api.machine import DeclaredMachine
from harness.operator.controllers.known_keys import KEY_SECONDS, KnownKeys
from harness.operator.controllers.probe import ProbeTrouble, TroubleReason
from tests.unit.operator.controllers.objects import machine

MACHINE = DeclaredMachine.model_validate(machine("m-0"))
FORM = (serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
KEY = Ed25519PrivateKey.generate().private_bytes(*FORM)
REFUSED = ProbeTrouble(TroubleReason.KEY_REFUSED, "no")
AWAY = ProbeTrouble(TroubleReason.UNREACHABLE, "no")


@dataclass
class Secrets:
    """An API with one Secret, and how often it was asked for."""

    there: bool = True
    asked: int = 0
    now: float = 0.0

    def get(self, resource: Resource, name: str, namespace: str) -> dict[str, Any] | None:
        assert (resource, namespace) == (SECRET, MACHINE.metadata.namespace)
        self.asked += 1
        key = {MACHINE.spec.key_ref.key: base64.b64encode(KEY).decode()}
        return {"metadata": {"name": name}, "data": key} if self.there else None


def keys(api: Secrets, seconds: float = KEY_SECONDS) -> KnownKeys:
    return KnownKeys(cast(Cluster, api), seconds, lambda: api.now)


def test_a_key_is_read_once_and_again_when_its_time_is_over() -> None:
    api = Secrets()
    known = keys(api)
    assert known.of(MACHINE) == known.of(MACHINE) != b""
    assert api.asked == 1
    api.now = KEY_SECONDS + 1
    known.of(MACHINE)
    assert api.asked == 2


def test_without_a_time_nothing_is_remembered() -> None:
    api = Secrets()
    known = keys(api, 0)
    known.of(MACHINE)
    known.of(MACHINE)
    assert api.asked == 2


@pytest.mark.parametrize(("outcome", "reads"), [(REFUSED, 2), (AWAY, 1), ("facts", 1)])
def test_a_key_that_was_refused_is_read_again(outcome: object, reads: int) -> None:
    api = Secrets()
    known = keys(api)
    known.of(MACHINE)
    known.judge(MACHINE, outcome)
    known.of(MACHINE)
    assert api.asked == reads


def test_a_secret_that_is_missing_is_asked_for_each_time() -> None:
    api = Secrets(there=False)
    known = keys(api)
    assert isinstance(known.of(MACHINE), ProbeTrouble)
    api.there = True
    assert isinstance(known.of(MACHINE), bytes)

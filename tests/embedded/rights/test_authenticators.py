"""`spec.authentication` of a ClusterDeployment, as the playbooks write it: a real API server asks real issuers."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from harness.artifacts.recipe import silent
from harness.artifacts.store import Store
from harness.kube import Cluster
from harness.operator.decide.variables import variables_of
from harness.providers.embedded import EmbeddedProvider, embedded_provider
from harness.until import Deadline, NotYet, until
from tests.embedded.conftest import PREFIX
from tests.embedded.rights.conftest import kubeconfig_of
from tests.embedded.rights.identity import Issuer, issuing
from tests.unit.operator.api.objects import defaulted, deployment
from tests.unit.playbooks.test_templates import render

Json = dict[str, Any]
CREATED, UNAUTHORIZED = 201, 401
RELOAD_SECONDS = 180.0  # against hanging: an API server looks at the file once a minute
SELF = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
PREFIXED = "people:"


def authenticator(issuer: Issuer) -> Json:
    """Return an item of `spec.authentication.jwt`, as a person writes it."""
    return {
        "issuer": {"url": issuer.url, "audiences": ["guest"], "certificateAuthority": issuer.authority},
        "claimMappings": {
            "username": {"claim": "sub", "prefix": PREFIXED},
            "groups": {"claim": "groups", "prefix": PREFIXED},
        },
        "claimValidationRules": [{"claim": "hd", "requiredValue": "example.org"}],
        "userValidationRules": [
            {"expression": "!user.username.endsWith('root')", "message": "nobody logs in as root"},
        ],
    }


def write(file: Path, folder: Path, *issuers: Issuer) -> None:
    """Write what the role makes of a ClusterDeployment with these issuers."""
    cd = defaulted(deployment(authentication={"jwt": [authenticator(one) for one in issuers]}))
    folder.mkdir()
    names = frozenset({file.name})
    made = render(
        "cp1-w1", folder, names, cluster_jwt_authenticators=variables_of(cd, {})["cluster_jwt_authenticators"]
    )
    new = file.with_suffix(".new")
    new.write_text((made / file.name).read_text(encoding="utf-8"), encoding="utf-8")
    new.replace(file)


@dataclass(frozen=True)
class Guest:
    """The API server, two issuers of which it knows the first, and the file that says so."""

    provider: EmbeddedProvider
    known: Issuer
    other: Issuer
    file: Path

    def answer(self, token: str) -> tuple[int, Json]:
        """Return the code, and whom the API server takes the owner of a token for."""
        kubeconfig = kubeconfig_of(token, self.provider, self.file.parent)
        found = Cluster.from_kubeconfig(kubeconfig).send(
            "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=SELF
        )
        user = found.body["status"]["userInfo"] if found.code == CREATED else {}
        return found.code, user


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """Bring up an API server that is configured by the file."""
    folder = tmp_path_factory.mktemp("authenticators")
    file = folder / "authentication.yml"
    with ExitStack() as cleanup:
        places = [folder / name for name in ("known", "other")]
        for place in places:
            place.mkdir()
        known, other = (cleanup.enter_context(issuing(place)) for place in places)
        write(file, folder / "first", known)
        usual = embedded_provider(f"{PREFIX}{os.getpid()}-authenticators", Store(), progress=silent)
        provider: EmbeddedProvider = usual.altered(api_flags={"authentication-config": file})
        cleanup.callback(provider.down)
        provider.up()
        yield Guest(provider, known, other, file)


def claims(issuer: Issuer, **more: Any) -> Json:
    """Return what a token says, with some of it otherwise; a claim that is None is left out."""
    now = int(time.time())
    usual = {"iss": issuer.url, "aud": "guest", "sub": "alice", "groups": ["dev", "ops"], "hd": "example.org"}
    said = {**usual, "iat": now, "nbf": now - 5, "exp": now + 600, **more}
    return {name: value for name, value in said.items() if value is not None}


def test_who_has_a_token_of_the_issuer_is_known_by_its_claims(guest: Guest) -> None:
    code, user = guest.answer(guest.known.token(claims(guest.known)))
    assert (code, user["username"]) == (CREATED, f"{PREFIXED}alice")
    assert user["groups"] == [f"{PREFIXED}dev", f"{PREFIXED}ops", "system:authenticated"]


LONG_AGO = 1_700_000_000
REFUSED: dict[str, Json] = {
    "for somebody else": {"aud": "another"},
    "expired": {"exp": LONG_AGO},
    "not valid yet": {"nbf": 4_000_000_000, "exp": 4_000_000_600},
    "without a name": {"sub": None},
    "of another organisation": {"hd": "example.com"},
    "of no organisation": {"hd": None},
    "of somebody whom a rule refuses": {"sub": "root"},
    "of an issuer that nobody knows": {"iss": "https://issuer.example"},
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_token_is_refused(what: str, guest: Guest) -> None:
    assert guest.answer(guest.known.token(claims(guest.known, **REFUSED[what]))) == (UNAUTHORIZED, {})


def test_a_token_of_another_key_is_refused(guest: Guest) -> None:
    forged = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    assert guest.answer(guest.known.token(claims(guest.known), key=forged)) == (UNAUTHORIZED, {})


def test_another_issuer_is_taken_without_a_restart(guest: Guest, tmp_path: Path) -> None:
    before, after = (guest.answer(one.token(claims(one)))[0] for one in (guest.known, guest.other))
    assert (before, after) == (CREATED, UNAUTHORIZED)
    write(guest.file, tmp_path / "second", guest.other)

    def read() -> bool | NotYet:
        code, _ = guest.answer(guest.other.token(claims(guest.other)))
        return code == CREATED or NotYet(f"it answers {code}")

    until(read, deadline=Deadline.after(RELOAD_SECONDS), what="the new configuration to be read", interval=1)
    assert guest.answer(guest.known.token(claims(guest.known))) == (UNAUTHORIZED, {})

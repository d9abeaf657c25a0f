"""A machine's cloud-init documents."""

from __future__ import annotations

import base64

import pytest

from harness.embedded.vmi.seed import seed
from harness.embedded.vmi.volumes import Unbootable
from tests.unit.embedded.vmi.samples import Json, vmi

SEED = {"name": "seed", "cloudInitNoCloud": {"secretRef": {"name": "cp-0-seed"}}}


def _secret(**data: str) -> Json:
    return {"data": {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}}


@pytest.mark.parametrize("key", ["userdata", "userData"])
def test_seed_comes_from_the_secret(key: str) -> None:
    found = seed(vmi(volumes=[SEED]), lambda _: _secret(**{key: "#cloud-config", "networkdata": "version: 2"}))
    assert found == ("#cloud-config", "version: 2")


def test_seed_may_be_inline() -> None:
    inline = {"name": "seed", "cloudInitNoCloud": {"userDataBase64": base64.b64encode(b"#cloud-config").decode()}}
    assert seed(vmi(volumes=[inline]), lambda _: None) == ("#cloud-config", "")


def test_missing_secret_or_key_is_said() -> None:
    with pytest.raises(Unbootable, match="secret cp-0-seed does not exist"):
        seed(vmi(volumes=[SEED]), lambda _: None)
    with pytest.raises(Unbootable, match="none of the keys userdata, userData"):
        seed(vmi(volumes=[SEED]), lambda _: _secret(other="x"))

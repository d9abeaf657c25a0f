"""Every command that asks an API, at an address where something else answers, or nothing that can be understood."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.cli import doctor
from harness.infra.cluster.checks import Use
from harness.spec.settings import Settings
from tests.unit.refusals.called import Refusal, Room
from tests.unit.refusals.lying import LIES, Liar

WHERE = "--provider kubeconfig --kubeconfig kc"
COMMANDS = ("status", "reap --all", "login cell cp-0")
SOME = ("portal-200", "says-object", "says-half", "missing-other", "redirect-302", "drip-body", "unknown", "forbidden")
ALSO = ("proxy cell cp-0", "kubeconfig cell", "reap --expired", "reap --run abcdef --remove-finalizers")
CASES = [
    *((command, name) for command in COMMANDS for name in LIES),
    *((command, name) for command in ALSO for name in SOME),
]


@pytest.mark.parametrize(("command", "name"), CASES, ids=[f"{c.split()[0]}-{n}" for c, n in CASES])
def test_what_is_no_kubernetes_api_is_said(room: Room, liar: Liar, command: str, name: str) -> None:
    lie = LIES[name]
    asked = Refusal(f"{command} {WHERE}", lie.says, code=lie.code, files={"kc": liar.kubeconfig(name)})
    ended = room.refuses(asked)
    assert f"127.0.0.1:{liar.server_address[1]}/{name}" in ended.stderr or not lie.says.startswith("this is not")


@pytest.fixture(scope="module")
def uses() -> list[Use]:
    """Return what a cluster is to be used for, once a command has found it out: it asks no cluster for that."""
    return []


@pytest.fixture
def used_alike(uses: list[Use], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands find out once what a cluster is to be used for."""
    plain = doctor.use_of_plan

    def known(settings: Settings, memory: int | None, *, pods: bool) -> Use:
        if not uses:
            uses.append(plain(settings, memory, pods=pods))
        return uses[0]

    monkeypatch.setattr(doctor, "use_of_plan", known)


@pytest.mark.usefixtures("used_alike")
@pytest.mark.parametrize("name", LIES)
def test_the_doctor_says_it_of_the_cluster(room: Room, liar: Liar, name: str) -> None:
    lie = replace(LIES[name], code=2)
    room.refuses(Refusal("doctor --no-pods --kubeconfig kc", code=lie.code, files={"kc": liar.kubeconfig(name)}))

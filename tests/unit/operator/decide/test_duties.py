"""Members of etcd that are gone leave once the others are known to be a majority; what is done half is put right."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.operator.api.cluster import AuthorityState, CurrentOperation, UnsettledState
from harness.operator.decide.desired import applied_host
from harness.operator.decide.duties import SETTLE_SECONDS
from harness.operator.decide.observed import begun, ended
from harness.operator.decide.operations import DUTIES, next_operation, plan
from tests.unit.operator.api.objects import wanted_set
from tests.unit.operator.decide.seen import seen
from tests.unit.operator.decide.wishes import MACHINES, NOW, claimed, deployed, operation, wait, wish
from tests.unit.playbooks.playbook_files import PLAYBOOKS, load

GONE = "its VirtualMachine is gone"
STACKED = wish(
    wanted_set("cp", "control-plane", "worker", replicas=3),
    wanted_set("w", "worker"),
    machines=(*(claimed(f"p-{number}", "cp") for number in range(3)), claimed("w-0", "w")),
)
LATER = timedelta(seconds=SETTLE_SECONDS)


def lost(*names: str, **more: Any) -> Any:
    """Return a world in which machines were just lost."""
    return replace(deployed(STACKED), lost=dict.fromkeys(names, GONE), lost_at=dict.fromkeys(names, NOW), **more)


def test_a_member_is_removed_only_once_no_other_one_was_lost_with_it() -> None:
    world = lost("p-1")
    found = wait(next_operation(STACKED, replace(world, now=NOW + timedelta(seconds=10))))
    assert (found.reason, found.again_seconds) == ("MajorityAtRisk", SETTLE_SECONDS - 10)
    assert found.message == "p-1 can be removed if no more of etcd's members is lost within 30 s"
    begins = operation(next_operation(STACKED, replace(world, now=NOW + LATER)))
    assert (begins.operation, begins.machines) == ("remove-node", ("p-1",))


def test_two_members_that_are_known_one_after_the_other_are_recovered_and_not_removed() -> None:
    backups = (seen("sunday", "verified"),)
    assert wait(next_operation(STACKED, lost("p-1", backups=backups))).reason == "MajorityAtRisk"
    assert wait(next_operation(STACKED, lost("p-1", "p-2", backups=backups))).reason == "RestoreNotNamed"


@pytest.mark.parametrize("after", [timedelta(0), LATER, timedelta(days=1)])
def test_a_member_stays_while_another_one_does_not_run(after: timedelta) -> None:
    world = lost("p-1", ill={"p-2": "it answers no login", "w-0": "it answers no login"})
    found = wait(next_operation(STACKED, replace(world, now=NOW + after)))
    assert (found.reason, found.again_seconds) == ("MajorityAtRisk", None)
    assert found.message == (
        "etcd has 3 members and needs 2; p-1 cannot be removed while 1 are well (p-2: it answers no login)"
    )


def test_a_clock_that_was_set_back_makes_the_wait_no_longer() -> None:
    found = wait(next_operation(STACKED, replace(lost("p-1"), now=NOW - timedelta(days=1))))
    assert found.again_seconds == SETTLE_SECONDS


def test_a_worker_that_is_lost_leaves_at_once() -> None:
    world = lost("w-0", ill={"p-1": "it answers no login", "p-2": "it answers no login"})
    assert operation(next_operation(STACKED, world)).machines == ("w-0",)


# By what may be done half: the operations that follow while a certificate expires soon.
HALF_DONE: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": ({}, ["certificates"]),
    "version": ({"parts": ("version",)}, ["reconfigure", "certificates"]),
    "source": ({"parts": ("source",)}, ["reconfigure", "certificates"]),
    "settings": ({"parts": ("settings",)}, ["reconfigure", "certificates"]),
    "addons": ({"parts": ("addons",)}, ["certificates", "addons"]),
    "hosts": ({"hosts": ("w-0",)}, ["scale", "certificates"]),
    "leaving": ({"leaving": ("w-0",)}, ["remove-node", "certificates", "scale"]),
    "parts and hosts": ({"parts": ("settings",), "hosts": ("w-0",)}, ["reconfigure", "scale", "certificates"]),
}


@pytest.mark.parametrize("half", HALF_DONE)
def test_what_is_done_half_is_put_right_before_certificates_are_renewed(half: str) -> None:
    fields, expected = HALF_DONE[half]
    world = replace(deployed(STACKED), expires=NOW + timedelta(days=1))
    assert world.applied is not None
    hosts = [applied_host(host) for host in STACKED.hosts if host.machine in fields.get("hosts", ())]
    if hosts:
        members = tuple(host for host in world.applied.hosts if host not in hosts)
        names = tuple(host.machine for host in members)
        world = replace(world, applied=world.applied.model_copy(update={"hosts": members, "machines": names}))
    world = replace(world, unsettled=UnsettledState(**{**fields, "hosts": tuple(hosts), "why": "x 1 failed"}))
    assert [step.operation for step in plan(STACKED, world)] == expected
    operations: list[str] = []
    while isinstance(verdict := next_operation(STACKED, world), CurrentOperation) and len(operations) < len(expected):
        operations.append(verdict.operation)
        world = ended(begun(world, verdict))
    assert operations == expected


OUTSIDE = wish(authority={"keysOnMachines": False})
GOOD = AuthorityState(usable=True)


def outside(**more: Any) -> Any:
    """Return the world in which a cluster whose CAs' keys are on no machine has come true."""
    world = deployed(wish(), authority=GOOD)
    begins = operation(next_operation(OUTSIDE, replace(world, sequence=0, applied=None, history=())))
    return replace(world, applied=begins.applies, **more)


def test_certificates_of_all_kubelets_are_renewed_where_nothing_in_the_cluster_signs() -> None:
    soon = NOW + timedelta(days=1)
    inside = operation(next_operation(wish(), replace(deployed(wish()), expires=soon)))
    begins = operation(next_operation(OUTSIDE, outside(expires=soon)))
    assert (inside.operation, begins.operation) == ("certificates", "certificates")
    assert len(inside.machines) == 1
    assert set(begins.machines) == {machine.metadata.name for machine in MACHINES}


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (AuthorityState(reason="SecretMissing", message="Secret guest-ca is gone"), "Secret guest-ca is gone"),
        (None, "machines of this cluster made its CAs"),
    ],
    ids=["lost", "of machines"],
)
def test_what_has_to_be_signed_waits_for_the_keys(state: AuthorityState | None, words: str) -> None:
    waits = wait(next_operation(OUTSIDE, outside(expires=NOW + timedelta(days=1), authority=state)))
    assert waits.reason == "WaitingForAuthority"
    assert words in waits.message
    assert operation(next_operation(wish(), replace(deployed(wish()), expires=NOW, authority=state))).operation


def test_keys_leave_machines_and_come_back_by_a_reconfiguration() -> None:
    leave = operation(next_operation(OUTSIDE, deployed(wish(), authority=GOOD)))
    assert (leave.operation, leave.applies.variables["cluster_external_ca"]) == ("reconfigure", True)  # type: ignore[union-attr]
    assert "spec.authority.keysOnMachines" in (leave.why or "")
    back = operation(next_operation(wish(), outside()))
    assert back.operation == "reconfigure"
    assert "cluster_external_ca" not in back.applies.variables  # type: ignore[union-attr]
    lost = wait(next_operation(wish(), outside(authority=AuthorityState(reason="Expired", message="it has expired"))))
    assert (lost.reason, lost.message) == ("WaitingForAuthority", "it has expired")


def reaches(entry: Path) -> set[str]:
    """Return the roles of a playbook and of those that it imports, and which of the roles include the external CA."""
    found: set[str] = set()
    for play in load(entry):
        if imported := play.get("ansible.builtin.import_playbook"):
            found |= reaches(PLAYBOOKS / imported)
        found |= {role["role"] for role in play.get("roles", ())}
        found |= set(play.get("vars", {}).get("settings_roles", ()))
    return found


INCLUDES = {"external_ca"} | {
    path.parents[1].name
    for path in PLAYBOOKS.glob("roles/*/tasks/*.yml")
    if "name: external_ca\n" in path.read_text(encoding="utf-8")
}


def test_operations_whose_playbooks_sign_are_known_to() -> None:
    assert {"external_ca", "certificates", "etcd", "kubeadm_upgrade"} == INCLUDES
    signing = {duty.entry for duty in DUTIES if reaches(PLAYBOOKS / duty.entry) & INCLUDES}
    assert {duty.entry for duty in DUTIES if duty.signs} == signing - {
        "adopt.yml"
    }  # which machines' own CAs have signed

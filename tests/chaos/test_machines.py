"""Machines that do not come up, or not as they should: the right blame, message and hint, in time, nothing left."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from harness.cell.life import Life
from harness.cell.machines import changes, sight
from harness.errors import EXIT_RETRY, Blame, InfraError, InfraRetriable, VmatrixError
from harness.kube.resources import POD, VM, VMI
from harness.machines.kubevirt.launchers import Sighting
from harness.model import Environment, Machine
from harness.until import Deadline, NotYet, TimedOut, until
from tests.chaos.cells import Ground, bring_up, cell_of, told

rows = pytest.mark.row
SLOW_SECONDS = 60.0


def fails(ground: Ground, **faults: dict[str, object]) -> tuple[VmatrixError, float]:
    """Provision a cell that is befallen by faults, tear it down, and return its error and how long it took."""
    life = ground.life(ground.site(), cell_of(1))
    began = time.monotonic()
    with ground.befallen(life, **faults), pytest.raises(VmatrixError) as caught:
        life.provision()
    took = time.monotonic() - began
    life.collect()
    life.teardown()
    assert caught.value.blame is Blame.INFRA
    return caught.value, took


@rows("F12")
@pytest.mark.parametrize(
    ("asked", "said", "hint"),
    [
        ({"resource": "devices.kubevirt.io/kvm"}, "Insufficient devices.kubevirt.io/kvm", "useEmulation"),
        ({"cpu_model": "Cooperlake"}, "node affinity", "CPU model"),
    ],
)
def test_no_room_is_the_infras_lack_of_capacity_and_worth_another_try(
    ground: Ground, asked: dict[str, object], said: str, hint: str
) -> None:
    life = ground.life(ground.site())
    with ground.befallen(life, unschedulable=asked), pytest.raises(InfraRetriable, match="no room for machine") as no:
        life.provision()
    assert said in no.value.summary
    assert hint in no.value.hint
    assert no.value.exit_code == EXIT_RETRY
    ends = [e for e in ground.recorded(life) if e["event"] == "step-end" and e["step"] == ["provision"]]
    assert [(e["attempt"], e["outcome"], e["blame"]) for e in ends] == [(1, "failed", "infra"), (2, "failed", "infra")]
    life.teardown()


@rows("F13")
@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff"])
def test_an_image_that_cannot_be_pulled_ends_the_wait_with_the_kubelets_words(ground: Ground, reason: str) -> None:
    error, took = fails(ground, image_pull={"reason": reason})
    assert f"{reason}: Back-off pulling image" in error.summary
    assert "mirror" in error.hint
    assert "ImageVolume" in error.hint
    assert not isinstance(error, InfraRetriable)
    assert took < SLOW_SECONDS


@rows("F13")
def test_an_image_that_is_pulled_late_is_waited_for(ground: Ground) -> None:
    life = ground.life(ground.site({"unschedulable": 30.0}))
    with ground.befallen(life, image_pull={"seconds": 5}, no_guest={}):
        (machine,) = bring_up(life)
    assert machine.address


@rows("F14")
def test_a_machine_that_crashes_is_not_waited_for_and_its_last_words_are_kept(ground: Ground) -> None:
    life = ground.life(ground.site())
    with ground.befallen(life, launcher_crashes={"message": "panic: no such domain"}):
        with pytest.raises(InfraError, match="does not stay up") as caught:
            life.provision()
        life.collect()
    assert "Error (exit code 1): panic: no such domain" in caught.value.summary
    assert "VirtualMachineInstance Failed since" in caught.value.detail
    kept = {p.name: p.read_text(encoding="utf-8") for p in (life.attempt.directory / "logs").iterdir() if p.is_file()}
    assert "panic: no such domain" in kept["objects.yml"]
    assert "panic: no such domain" in kept["m-0-launcher.log"]
    life.teardown()


@rows("F14")
def test_a_machine_is_started_once_and_not_anew_behind_the_cells_back(ground: Ground) -> None:
    life = ground.life(ground.site())
    with ground.befallen(life, launcher_crashes={}), pytest.raises(InfraError):
        life.provision()
    (vm,) = ground.cluster.list(VM, life.attempt.namespace).items
    assert vm["spec"]["runStrategy"] == "Once"
    assert vm["status"]["startFailure"]["consecutiveFailCount"] == 1
    life.teardown()


@rows("F15")
@pytest.mark.parametrize(("fault", "phase"), [("handler_down", "Scheduled"), ("launcher_stuck", "Scheduling")])
def test_a_machine_that_stays_in_a_phase_is_given_up_with_who_should_have_acted(
    ground: Ground, fault: str, phase: str
) -> None:
    asked: dict[str, dict[str, object]] = {fault: {}}
    error, took = fails(ground, **asked)
    assert f"stays {phase} for" in error.summary
    assert "virt-handler" in told(error)
    assert f"VirtualMachineInstance {phase} since" in error.detail
    assert error.exit_code == EXIT_RETRY
    assert took < 2 * SLOW_SECONDS


@rows("F15")
def test_a_machine_that_the_agent_cannot_start_says_why(ground: Ground) -> None:
    error, _ = fails(ground, sync_failed={"message": "server error. command SyncVMI failed: no space"})
    assert "has not started for" in error.summary
    assert "command SyncVMI failed: no space" in error.summary
    assert "SyncFailed" in error.detail


OOM = {"exit_code": 137, "reason": "OOMKilled", "message": ""}


@rows("F16")
def test_a_launcher_that_is_killed_for_its_memory_is_the_infras_failure(ground: Ground) -> None:
    error, _ = fails(ground, launcher_crashes=OOM)
    assert "OOMKilled (exit code 137)" in error.summary
    assert "reservedOverhead" in error.hint


@rows("F16", "F17")
def test_a_machine_that_dies_before_anybody_logged_in_is_noticed_long_before_the_deadline(ground: Ground) -> None:
    life = ground.life(ground.site({"ssh": 300.0}))
    began = time.monotonic()
    with ground.befallen(life, no_guest={}, launcher_crashes={**OOM, "after": 4}), pytest.raises(InfraRetriable) as no:
        life.provision()
    assert "died: OOMKilled (exit code 137), before anybody logged in to it" in no.value.summary
    assert time.monotonic() - began < 150
    life.teardown()


@rows("F16")
def test_machines_are_made_without_a_limit_of_memory(ground: Ground) -> None:
    life = ground.life(ground.site())
    with ground.befallen(life, no_guest={}):
        bring_up(life)
    (vm,) = ground.cluster.list(VM, life.attempt.namespace).items
    assert "limits" not in (vm["spec"]["template"]["spec"]["domain"].get("resources") or {})


def wait_for_change(ground: Ground, life: Life, seen: Sequence[Sighting], names: set[str]) -> str:
    return until(
        lambda: "; ".join(changes(ground.cluster, life.attempt.place, seen, names)) or NotYet("as they were"),
        deadline=Deadline.after(30),
        what="a machine to change",
        interval=0.2,
    )


@rows("F17")
def test_a_machine_without_its_launcher_is_no_machine(ground: Ground) -> None:
    life = ground.life(ground.site())
    with ground.befallen(life, no_guest={}, launcher_vanishes={"after": 3}):
        machines = bring_up(life)
        seen = sight(ground.cluster, life.attempt.place, machines)
        said = wait_for_change(ground, life, seen, {"m-0"})
        vmi = ground.cluster.get(VMI, "m-0", life.attempt.namespace)
    assert said == "machine m-0 lost its launcher pod, although its instance still reports Running"
    assert vmi is not None
    assert vmi["status"]["phase"] == "Running"


@rows("F17")
def test_a_machine_that_was_started_anew_ends_the_cell_as_the_infras_failure(ground: Ground) -> None:
    life = ground.life(ground.site(), cell_of(2))
    with ground.befallen(life, no_guest={}):
        machines = bring_up(life)
        take_over(ground, life, machines)
        ground.cluster.delete(VMI, "m-1", life.attempt.namespace)
        until(
            lambda: "restarted" in wait_for_change(ground, life, life.sightings, {"m-1"}) or NotYet("not yet"),
            deadline=Deadline.after(60),
            what="the machine to be started again",
        )
        with pytest.raises(InfraError, match="before the phase deploy: machine m-1 was restarted") as no:
            life.apply(0)
        assert "not the product's fault" in no.value.hint
        assert no.value.blame is Blame.INFRA
        life.teardown()


@rows("F17")
def test_a_playbook_that_fails_because_a_machine_died_is_not_the_products_failure(ground: Ground) -> None:
    life = ground.life(ground.site())
    with ground.befallen(life, no_guest={}, launcher_crashes={**OOM, "after": 6}):
        take_over(ground, life, bring_up(life))
        wait_for_change(ground, life, life.sightings, {"m-0"})
    before, life.sightings = life.sightings, ()  # as if it had been well until the playbook began
    life.watch = lambda *_: known_again(life, before)
    with pytest.raises(InfraError, match="during the phase deploy: machine m-0 died: OOMKilled") as no:
        life.apply(0)
    assert "what failed then" in no.value.detail
    life.teardown()


@contextmanager
def known_again(life: Life, seen: tuple[Sighting, ...]) -> Iterator[None]:
    """Let a life know its machines again once its playbook is about to begin."""
    life.sightings = seen
    yield


def take_over(ground: Ground, life: Life, machines: Sequence[Machine]) -> None:
    """Let a life go on from machines that nobody can log in to, as if provisioning had ended."""
    attempt = life.attempt
    life.environment = Environment(
        run=attempt.run,
        cell=attempt.cell,
        attempt=attempt.number,
        namespace=attempt.namespace,
        machines=tuple(machines),
        directory=attempt.directory,
        private_key=attempt.files.key,
    )
    life.sightings = sight(ground.cluster, attempt.place, machines)


@rows("F18", "F19")
@pytest.mark.parametrize("lie", ["10.0.2.2", "169.254.7.7"])
def test_the_address_is_the_launchers_whatever_the_instance_reports(ground: Ground, lie: str) -> None:
    life = ground.life(ground.site())
    with ground.befallen(life, no_guest={}, address={"reported": lie}):
        machines = bring_up(life)
        seen = sight(ground.cluster, life.attempt.place, machines)
        until(
            lambda: reported(ground, life.attempt.namespace) == lie or NotYet("not yet"),
            deadline=Deadline.after(30),
            what="the instance to report another address",
        )
        assert changes(ground.cluster, life.attempt.place, seen, {"m-0"}) == []
    (pod,) = ground.cluster.list(POD, life.attempt.namespace, labels="kubevirt.io=virt-launcher").items
    assert machines[0].address == pod["status"]["podIP"] != lie


def reported(ground: Ground, namespace: str) -> str:
    vmi = ground.cluster.get(VMI, "m-0", namespace) or {}
    interfaces = (vmi.get("status") or {}).get("interfaces") or [{}]
    return str(interfaces[0].get("ipAddress", ""))


@rows("F18")
@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("169.254.1.5", "169.254.1.5 is link-local"),
        ("10.0.2.2", "10.0.2.2 is the one that masquerade gives every guest"),
        ("none", "its launcher pod has no address"),
    ],
)
def test_an_address_that_nobody_can_reach_is_no_address(ground: Ground, address: str, said: str) -> None:
    life = ground.life(ground.site({"machine_address": 15.0}))
    with ground.befallen(life, no_guest={}, address={"pod": address}), pytest.raises(TimedOut) as no:
        bring_up(life)
    assert "machine m-0 to get an address" in no.value.summary
    assert said in no.value.summary


@rows("F18", "F20")
def test_an_agent_that_connects_late_and_reports_an_address_of_its_own_changes_nothing(ground: Ground) -> None:
    life = ground.life(ground.site())
    with ground.befallen(life, no_guest={}, agent={"after": 2}):
        machines = bring_up(life)
        seen = sight(ground.cluster, life.attempt.place, machines)
        until(
            lambda: reported(ground, life.attempt.namespace) == "10.0.2.2" or NotYet("no agent yet"),
            deadline=Deadline.after(30),
            what="the agent to connect",
        )
        assert changes(ground.cluster, life.attempt.place, seen, {"m-0"}) == []
    vmi = ground.cluster.get(VMI, "m-0", life.attempt.namespace) or {}
    assert any(c["type"] == "AgentConnected" for c in vmi["status"]["conditions"])


@rows("F20")
def test_a_machine_whose_agent_never_connects_has_an_address_all_the_same(ground: Ground) -> None:
    life = ground.life(ground.site())
    with ground.befallen(life, no_guest={}):
        (machine,) = bring_up(life)
    vmi = ground.cluster.get(VMI, "m-0", life.attempt.namespace) or {}
    assert not any(c["type"] == "AgentConnected" for c in vmi["status"]["conditions"])
    assert machine.address


@rows("F24", "F29")
def test_a_machine_can_be_evicted_and_says_so(ground: Ground) -> None:
    life = ground.life(ground.site())
    with ground.befallen(life, no_guest={}):
        machines = bring_up(life)
        seen = sight(ground.cluster, life.attempt.place, machines)
        (vmi,) = ground.cluster.list(VMI, life.attempt.namespace).items
        assert vmi["spec"]["evictionStrategy"] == "None"
        (pod,) = ground.cluster.list(POD, life.attempt.namespace, labels="kubevirt.io=virt-launcher").items
        name = pod["metadata"]["name"]
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        path = POD.path(life.attempt.namespace, name, "eviction")
        assert ground.cluster.send("POST", path, body=eviction).code == 201  # no budget stands in a drain's way
        said = wait_for_change(ground, life, seen, {"m-0"})
    assert said.startswith("machine m-0 ")


@rows("F29")
def test_a_machine_that_was_moved_is_another_machine(ground: Ground) -> None:
    life = ground.life(ground.site())
    with ground.befallen(life, no_guest={}, moves={"after": 3}):
        machines = bring_up(life)
        seen = sight(ground.cluster, life.attempt.place, machines)
        said = wait_for_change(ground, life, seen, {"m-0"})
    assert "was moved from node" in said
    assert "to elsewhere: another launcher pod runs it" in said

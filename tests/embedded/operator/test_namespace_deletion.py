"""A namespace that is deleted while no operator runs: it goes, or what a person does then is in the documentation."""

from __future__ import annotations

import pytest

from harness.kube.objects import condition, dig
from harness.kube.resources import NAMESPACE
from harness.operator.api.resources import CLUSTER_DEPLOYMENT, MACHINE, RESET_FINALIZER
from harness.operator.controllers.machine import HOLD
from harness.operator.registry import stop
from harness.until import Deadline, NotYet, until
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.declared import Declared
from tests.embedded.operator.played import INTERVAL, WAIT_SECONDS
from tests.embedded.operator.world import OPTIONS
from tests.unit.operator.api.objects import wanted_set
from tests.unit.pages import ROOT

pytestmark = pytest.mark.usefixtures("logins")
FREED = '{"metadata":{"finalizers":null}}'  # what the page tells a person to patch


def deployed(declared: Declared, manager: StartManager, machines: str) -> None:
    """Have a cluster deployed on one Machine, and its operator end for ever."""
    declared.machine("m-0")
    made = declared.deployment("one", wanted_set("cp", "control-plane"), deletion={"machines": machines})
    claim = {"cluster": "one", "set": "cp", "uid": made["metadata"]["uid"]}
    declared.api.merge(MACHINE, "m-0", {"spec": {"claim": claim}}, declared.namespace)
    declared.worked("one", "deploy", "m-0")
    context = manager("clusterdeployment", "machine", options=OPTIONS)
    holds = machines == "Reset"
    for name, kind, finalizer in (("one", CLUSTER_DEPLOYMENT, RESET_FINALIZER), ("m-0", MACHINE, HOLD)):

        def is_held(found: dict[str, object], finalizer: str = finalizer) -> bool:
            return (finalizer in (dig(found, "metadata", "finalizers") or ())) == holds

        declared.wait(name, is_held, "held" if holds else "free", kind)
    assert stop(context)


def gone(declared: Declared) -> None:
    """Wait for the namespace to be gone."""

    def probe() -> bool | NotYet:
        found = declared.api.get(NAMESPACE, declared.namespace)
        return True if found is None else NotYet(str(condition(found, "NamespaceFinalizersRemaining")))

    until(probe, deadline=Deadline.after(WAIT_SECONDS), what="the namespace to be gone", interval=INTERVAL)


def test_with_leave_it_goes_without_anybody(declared: Declared, manager: StartManager) -> None:
    deployed(declared, manager, "Leave")
    declared.api.delete(NAMESPACE, declared.namespace)
    gone(declared)


def test_with_reset_it_waits_until_a_person_gives_the_reset_up(declared: Declared, manager: StartManager) -> None:
    page = (ROOT / "docs" / "operator" / "webhooks.md").read_text(encoding="utf-8")
    for kind in ("vcd guest", "vma m-0 m-1 m-2"):
        assert f"kubectl patch {kind} -n clusters --type=merge -p '{FREED}'" in page
    deployed(declared, manager, "Reset")
    api, namespace = declared.api, declared.namespace
    api.delete(NAMESPACE, namespace)

    def waits() -> bool | NotYet:
        said = condition(api.get(NAMESPACE, namespace), "NamespaceFinalizersRemaining") or {}
        both = all(finalizer in said.get("message", "") for finalizer in (RESET_FINALIZER, HOLD))
        return (said.get("status") == "True" and both) or NotYet(str(said))

    until(waits, deadline=Deadline.after(WAIT_SECONDS), what="the namespace to wait for both", interval=INTERVAL)
    for held, name in ((CLUSTER_DEPLOYMENT, "one"), (MACHINE, "m-0")):
        api.merge(held, name, {"metadata": {"finalizers": None}}, namespace)
    gone(declared)

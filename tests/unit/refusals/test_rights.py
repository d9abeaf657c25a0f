"""Every command that asks the API, refused at each of its requests: which right on what, and how to get it."""

from __future__ import annotations

import pytest

from harness.errors import EXIT_INFRA, EXIT_LEAKED
from harness.rundir import RunDir
from tests.unit.refusals.allowing import CELL, NAMESPACE, RUN, No, allowing
from tests.unit.refusals.called import Refusal, Room

WHERE = "--provider kubeconfig --kubeconfig kc"
INSIDE = f" -n {NAMESPACE}"
CELLS = "list namespaces"
VMS, VMIS = f"list virtualmachines.kubevirt.io{INSIDE}", f"list virtualmachineinstances.kubevirt.io{INSIDE}"
PODS, VM = f"list pods{INSIDE}", f"get virtualmachines.kubevirt.io{INSIDE}"
TUNNEL = f"get virtualmachineinstances.subresources.kubevirt.io/portforward{INSIDE}"
SHARED = [f"list {kind} -n ns" for kind in ("virtualmachines.kubevirt.io", "datavolumes.cdi.kubevirt.io")]
ASKING = {
    "status": (CELLS, VMS, VMIS, PODS),
    "status --namespace ns": SHARED,
    f"login {CELL} cp-0": (CELLS, VMIS, PODS, VM),
    f"proxy {CELL} cp-0": (CELLS, VMIS, TUNNEL),
    f"kubeconfig {CELL} --access portforward": (CELLS, VMIS, PODS),
    f"kubectl {CELL} --access portforward -- get nodes": (CELLS, VMIS, PODS),
    f"check {CELL}": (CELLS,),
    "reap --expired": (CELLS,),
    "reap --all --namespace ns": SHARED,
}
HINTS = {
    401: "the API does not know these credentials",
    403: "`kubectl auth can-i {right}` must say yes; ask the cluster's owner",
    404: "the API does not have this object or kind: is it the right cluster, with KubeVirt and CDI?",
}
WORDS = {401: "401 Unauthorized", 403: "403 Forbidden", 404: "404 NotFound"}
CASES = [
    (words, No(right, code))
    for words, rights in ASKING.items()
    for right in rights
    for code in HINTS
    if (right, code) != (VM, 404)  # it is read for the user's name alone, which has a default
]


@pytest.fixture(autouse=True)
def _files(room: Room) -> None:
    """Have the files that the cell's run wrote."""
    files = RunDir.of(room.work / "runs", RUN).attempt(CELL)
    files.hosts.parent.mkdir(parents=True)
    for file in (files.key, files.kubeconfig, files.variables):
        file.write_text("{}\n", encoding="utf-8")


@pytest.mark.parametrize(("words", "no"), CASES, ids=[f"{w}-{no.right}-{no.code}" for w, no in CASES])
def test_a_right_that_is_missing_is_named_with_how_to_get_it(room: Room, words: str, no: No) -> None:
    first, *rest = words.split(" ")
    with allowing(no) as (kubeconfig, asked):
        case = Refusal(
            " ".join((first, *WHERE.split(), *rest)),
            WORDS[no.code],
            HINTS[no.code].format(right=no.right),
            EXIT_INFRA,
            files={"kc": kubeconfig},
        )
        room.refuses(case)
        assert no.right in asked.rights


REAPING = (VMS, f"delete virtualmachines.kubevirt.io{INSIDE}")


@pytest.mark.parametrize("code", [401, 403])
@pytest.mark.parametrize("right", REAPING)
def test_a_cell_that_may_not_be_deleted_is_left_with_the_reason(room: Room, right: str, code: int) -> None:
    with allowing(No(right, code)) as (kubeconfig, _):
        hint = HINTS[code].format(right=right)
        files = {"kc": kubeconfig}
        room.refuses(Refusal(f"reap --all {WHERE}", "could not be removed", hint, EXIT_LEAKED, files=files))

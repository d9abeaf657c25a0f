"""What surrounds a machine's programs: names of machines, name servers, the proxy before the API, amended units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.urls import joined
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.programs import MachineSetup, RunningPrograms
from harness.validate.findings import Mismatch, on_every, same_set, unjudged

API_PORT = 6443
OK = 200
Setups = Mapping[str, MachineSetup]
Running = Mapping[str, RunningPrograms]


def wrong_backends(running: Running, expected: ExpectedGuest) -> list[Mismatch]:
    """Return where the proxy before the API has other control planes than the inventory."""
    local = expected.leaves.local_api
    if local.backends is None:
        return [unjudged("the proxy before the API", "product.yml names no file (local_api.backends)", whole=True)]
    wanted = {joined(expected.addresses[name], API_PORT): name for name in expected.control_plane}

    def judge(name: str, seen: RunningPrograms) -> Iterator[Mismatch]:
        where = f"{name} {local.backends}"
        if seen.backends is None:
            yield Mismatch(where, "a proxy that runs", "none")
            return
        named = [f"{wanted.get(address, '')} {address}".strip() for address in seen.backends.content.values()]
        yield from same_set(where, "control planes", [f"{one} {at}" for at, one in wanted.items()], named)

    having = expected.nodes if local.group == "node" else expected.workers
    return on_every(having, running, judge) if having else []


def silent_api(setups: Setups, expected: ExpectedGuest) -> list[Mismatch]:
    """Return nodes that get no answer of the API at the address that their kubelet uses."""

    def judge(name: str, seen: MachineSetup) -> Iterator[Mismatch]:
        if seen.kubelets_api is None:
            yield Mismatch(name, "a running kubelet, which uses the API", "none")
            return
        server, answer = seen.kubelets_api
        if answer.status != OK:
            yield Mismatch(f"{name} {server}", "an answer of the API", f"{answer.status or 'none'}: {answer.body}")

    return on_every(expected.nodes, setups, judge)

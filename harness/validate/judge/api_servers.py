"""What must be true of every API server of a guest, as its own machine asks it without credentials."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from harness.validate.facts.expected import ExpectedGuest
from harness.validate.facts.node import HttpAnswer
from harness.validate.facts.setup import MachineSetup
from harness.validate.judge.finding import unjudged
from harness.validate.judge.mismatch import Mismatch, differs_upstream, on_every

OK = 200
REFUSED = (401, 403)
VERSION, READY = "/version", "/readyz?verbose"
HIDDEN = ("/api/v1/nodes", "/api/v1/secrets")


def wrong_api_servers(setups: Mapping[str, MachineSetup], expected: ExpectedGuest) -> list[Mismatch]:
    """Return the control planes whose own API server is not ready, has another version or serves strangers."""
    if setups and not any(seen.api for seen in setups.values()) and expected.static("kube-apiserver") is None:
        why = "no process of that name runs, and product.yml does not say how it runs"
        return [unjudged("API servers", why, whole=True)]

    def judge(name: str, seen: MachineSetup) -> Iterator[Mismatch]:
        where = f"{name} API server"
        if not seen.api:
            yield Mismatch(where, "a running API server", "none")
            return
        version = _version(seen.api[VERSION])
        yield from differs_upstream(where, "gitVersion", f"v{expected.kubernetes}", version)
        ready = seen.api[READY]
        failing = [line for line in ready.body.splitlines() if line.startswith("[-]")]
        if ready.status != OK:
            yield Mismatch(f"{where} /readyz", "200", f"{ready.status}: {'; '.join(failing) or ready.body[:200]}")
        for path in HIDDEN:
            status = seen.api[path].status
            if status not in REFUSED:
                yield Mismatch(f"{where} GET {path} without credentials", "401 or 403", str(status))

    return on_every(expected.control_plane, setups, judge)


def _version(answer: HttpAnswer) -> str:
    if answer.status != OK:
        return f"{answer.status}: {answer.body[:200]}"
    return str(json.loads(answer.body)["gitVersion"])

"""A made-up year of nights, the same for the same seed: what histories look like when real ones are not there yet.

Flaky cells and checks, regressions that last and are repaired, steps that become slower, nights that are missing, an
outage of the infrastructure, a quarantine, cells that join late and leave, old records without their details. Used by
the tests of the analysis and of the page, and by the bench.

    python -m tests.unit.history.synthetic OUT.json [NIGHTS [CELLS [SEED]]]
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from harness.check_result import FindingKind
from harness.history.lines import History, Skipped, forget, once
from harness.history.record import (
    AttemptRecord,
    CheckNote,
    CheckRow,
    CheckTable,
    Record,
    RunOrigin,
    StepRecord,
)
from harness.model import Outcome
from harness.report.analysis.analyse import Analysis, RecordFilter, analyse
from harness.report.analysis.planned import Planned
from harness.report.output.document import document as as_document
from harness.spec.models import QuarantineEntry

NOW = datetime(2026, 11, 21, 6, 0, tzinfo=UTC)
PROJECT = "https://gitlab.invalid/group/vmatrix"
AXES = {
    "kubernetes": ("1.34.4", "1.35.4", "1.36.1", "1.36.3"),
    "os": ("debian-12", "debian-13"),
    "runtime": ("containerd-1.7", "containerd-2.4"),
    "network": ("flannel", "routes"),
    "proxy": ("iptables", "nftables"),
    "topology": ("all-in-one", "cp1-w1", "cp1-w2", "cp3-w2", "cp3-etcd3-w2", "cp2-etcd3-w1"),
    "scenario": ("fresh", "scale", "upgrade-patch", "upgrade-minor", "reconfigure", "recover", "reset"),
    "source": ("mirror",),
}
SHORT = {
    "containerd-1.7": "c1",
    "containerd-2.4": "c2",
    "mirror": "m",
    "debian-12": "d12",
    "debian-13": "d13",
    "flannel": "fl",
    "routes": "rt",
    "iptables": "ip",
    "nftables": "nf",
}
PHASES = {"upgrade-patch": "upgrade", "upgrade-minor": "upgrade", "fresh": ""}
KEPT_DAYS = 30
AREAS = (("nodes", 14), ("cluster", 16), ("network", 12), ("conformance", 34))
CHECKS = tuple(f"{area}: test_{area}_claim_{number:02d}" for area, count in AREAS for number in range(count))
DNS = "network: test_network_claim_04"
BALANCE = "cluster: test_cluster_claim_07"
READY = "nodes: test_nodes_claim_03"
MESSAGES = {
    DNS: "E   AssertionError: kubernetes.default.svc was not resolved within {n} s by 10.243.{n}.7 on w-{m}",
    BALANCE: "E   AssertionError: etcd member {id} is {n} ms behind its leader; want at most 50 ms",
    READY: "E   AssertionError: kubelet on cp-{m} restarted {n} times since 2026-01-01T00:00:00Z",
}
DEPLOY = "task [control_plane : Initialise the first control plane] failed on cp-0: dial tcp 10.216.{n}.7:6443: refused"
PROVISION = "timed out after {n} s waiting for machine w-{m} to have an address: Scheduling"


@dataclass(frozen=True)
class Trouble:
    """A regression: some cells fail in the same way from one night to another.

    where: axis values of the cells that it meets.  check: "" is the deployment.
    """

    first: int
    last: int
    where: Mapping[str, str]
    check: str = ""


def quarantine(nights: int) -> tuple[QuarantineEntry, ...]:
    """Return the entries in force on the last night."""
    return (
        QuarantineEntry(
            cell="k1344-*-c3w2-*", check=BALANCE, issue=f"{PROJECT}/-/issues/41", reason="slow disks",
            until=NOW.date() + timedelta(days=10),
        ),
        QuarantineEntry(
            cell="*-reset-*", check="nodes: test_nodes_claim_13", issue=f"{PROJECT}/-/issues/12",
            reason="repaired, the entry was forgotten", until=NOW.date() + timedelta(days=3),
        ),
    )  # fmt: skip


def troubles(nights: int) -> tuple[Trouble, ...]:
    """Return the regressions of a history of so many nights; two are still there in the last night."""
    at = [round(nights * share) for share in (0.2, 0.23, 0.5, 0.56, 0.8, 0.83)]
    return (
        Trouble(at[0], at[1], {"network": "routes"}, DNS),
        Trouble(at[2], at[3], {"runtime": "containerd-1.7", "os": "debian-13"}),
        Trouble(at[4], at[5], {"scenario": "upgrade-minor"}, READY),
        Trouble(nights - 5, nights, {"topology": "cp3-etcd3-w2", "proxy": "nftables"}),
        Trouble(nights - 1, nights, {"kubernetes": "1.36.3", "network": "routes"}, DNS),
    )


def cells(count: int, seed: int) -> dict[str, dict[str, str]]:
    """Return so many cells, values by axis, by id."""
    chosen = random.Random(seed).sample(list(product(*AXES.values())), count)  # noqa: S311 - nothing secret
    return {_id(values): values for values in (dict(zip(AXES, picked, strict=True)) for picked in chosen)}


def _id(values: Mapping[str, str]) -> str:
    short = [SHORT.get(v, "".join(part[:2] for part in v.replace("-", " ").split())) for v in values.values()]
    short[0] = "k" + values["kubernetes"].replace(".", "")
    short[5] = values["topology"].replace("all-in-one", "a1").replace("cp", "c").replace("etcd", "e").replace("-", "")
    short[6] = values["scenario"].split("-")[-1][:5]
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:6]
    return "-".join((*short, digest))


def _moment(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass
class Year:
    """The making of a history, night by night."""

    nights: int
    seed: int
    plan: dict[str, dict[str, str]]

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)  # noqa: S311
        self.flaky = {cell: self.random.choice((0.0, 0.0, 0.0, 0.01, 0.02, 0.12)) for cell in self.plan}
        self.troubles = troubles(self.nights)
        self.missing = {round(self.nights * share) for share in (0.1, 0.37, 0.9)}
        self.outages = {round(self.nights * 0.7)}
        late = sorted(self.plan)[:: max(1, len(self.plan) // 3)]
        self.joined = {cell: round(self.nights * share) for cell, share in zip(late, (0.6, 0.85), strict=False)}
        self.gone = dict.fromkeys(late[2:3], self.nights - 9)
        self.base = {cell: 100 + 25 * len(v["topology"]) + 20 * len(v["scenario"]) for cell, v in self.plan.items()}

    def records(self) -> list[Record]:
        """Return all records, oldest first."""
        return [r for night in range(self.nights) if night not in self.missing for r in self.night(night)]

    def night(self, night: int) -> list[Record]:
        """Return one night's records."""
        start = NOW - timedelta(days=self.nights - night - 1, hours=8, minutes=self.random.randrange(4))
        runs = [c for c in self.plan if self.joined.get(c, 0) <= night < self.gone.get(c, self.nights)]
        return [self.record(cell, night, start + timedelta(seconds=37 * n)) for n, cell in enumerate(runs)]

    def record(self, cell: str, night: int, start: datetime) -> Record:
        """Return one cell's record of one night."""
        values = self.plan[cell]
        trouble = next((t for t in self.troubles if self.meets(t, night, values)), None)
        infra = self.random.random() < (0.8 if night in self.outages else 0.004)
        flake = self.random.random() < self.flaky[cell]
        excused = cell.startswith("k1344-") and "-c3w2-" in cell and self.random.random() < 0.3
        if infra:
            return self.failed_early(cell, night, start, "provision", "infra", PROVISION)
        if trouble is not None and not trouble.check:
            return self.failed_early(cell, night, start, "deploy", "product", DEPLOY)
        check = trouble.check if trouble is not None else DNS if flake else BALANCE if excused else ""
        return self.checked(cell, night, start, check, f"{PROJECT}/-/issues/41" if check == BALANCE else "")

    def meets(self, trouble: Trouble, night: int, values: Mapping[str, str]) -> bool:
        """Tell whether a regression meets a cell in a night."""
        return trouble.first <= night < trouble.last and all(values[a] == v for a, v in trouble.where.items())

    def said(self, text: str) -> str:
        """Fill a message in with what differs from run to run."""
        rng = self.random
        return text.format(n=rng.randrange(20, 250), m=rng.randrange(2), id=f"{rng.getrandbits(64):016x}")

    def common(self, cell: str, night: int, start: datetime, seconds: float) -> dict[str, Any]:
        """Return what every record of a cell's night says."""
        number = 9_000_000 + night
        job = 40_000_000 + night * 100 + list(self.plan).index(cell)
        url = f"{PROJECT}/-"
        run = f"{(night * 7919 + job) % 36**6:06d}"[-6:]
        return {
            "id": f"{start:%Y%m%dT%H%M%S}000Z.{run}.{cell}.1",
            "run": run,
            "cell": cell,
            "started": _moment(start),
            "finished": _moment(start + timedelta(seconds=seconds)),
            "axes": self.plan[cell],
            "tier": "nightly",
            "infra": "kubevirt",
            "provider": "kubeconfig",
            "seconds": round(seconds, 1),
            "waited": 12.5,
            "logs": f"runs/{run}/{cell}/logs",
            "where": RunOrigin(
                project="group/vmatrix", project_url=PROJECT, branch="main", pipeline=str(number),
                commit=hashlib.sha256(f"commit {night // 2}".encode()).hexdigest()[:40],
                pipeline_url=f"{url}/pipelines/{number}", job=str(job), job_url=f"{url}/jobs/{job}",
            ),
        }  # fmt: skip

    def took(self, cell: str, night: int) -> list[StepRecord]:
        """Return the steps of a cell that deploys; deployments became slower in the last tenth of the nights."""
        values, base = self.plan[cell], self.base[cell]
        slow = 1.35 if night > self.nights * 0.97 and values["network"] == "flannel" and "c3w2" in cell else 1.0
        names = {"provision": 0.2, "deploy": 0.55 * slow}
        phase = PHASES.get(values["scenario"], values["scenario"])
        names |= {phase: 0.4} if phase else {}
        names |= {"collect": 0.02, "teardown": 0.06}
        return [StepRecord(n, "passed", round(base * s * self.random.gauss(1, 0.04), 1)) for n, s in names.items()]

    def failed_early(self, cell: str, night: int, start: datetime, where: str, blame: str, text: str) -> Record:
        """Return a record of a cell that failed in a step; its checks did not run."""
        message = self.said(text)
        steps = []
        for step in self.took(cell, night):
            if step.name == where:
                inner = replace(step, name=f"{where} / machines", outcome="failed", blame=blame, message=message)
                steps += [replace(inner, name=where), *([inner] if blame == "infra" else [])]
            elif step.name in ("provision", "collect", "teardown") and (where != "provision" or step.name != where):
                steps.append(step)
        note = CheckNote(CHECKS, f"{where} failed", Outcome.NOT_RUN, FindingKind.NOT_RUN, stage="deploy")
        seconds = sum(s.seconds for s in steps if s.top)
        return Record(
            **self.common(cell, night, start, seconds),
            outcome=Outcome.FAILED,
            blame=blame,
            attempts=(AttemptRecord(1, Outcome.FAILED, seconds, blame),),
            steps=tuple(steps),
            checks=CheckTable(CHECKS, (CheckRow("deploy", "s" * len(CHECKS)),)),
            notes=(note,),
            counts={"not-run": len(CHECKS)},
        )

    def checked(self, cell: str, night: int, start: datetime, failing: str, issue: str) -> Record:
        """Return a record of a cell whose checks ran, with at most one that failed."""
        letters = "".join(("q" if issue else "f") if c == failing else "p" for c in CHECKS)
        phase = PHASES.get(self.plan[cell]["scenario"], self.plan[cell]["scenario"])
        rows = [CheckRow("deploy", letters, 1, tuple(round(0.1 + n % 7 / 10, 1) for n in range(len(CHECKS))))]
        rows += [replace(rows[0], stage=phase, results="p" * len(CHECKS))] if phase else []
        message = self.said(MESSAGES[failing]) + "\n\ntests/cells/network/test_network.py:71" if failing else ""
        note = CheckNote((failing,), message, stage="deploy", blame="product", quarantine=issue)
        outcome = Outcome.QUARANTINED if issue else Outcome.FAILED if failing else Outcome.PASSED
        blame = "product" if failing and not issue else ""
        steps = self.took(cell, night)
        seconds = sum(s.seconds for s in steps) + 0.4 * len(CHECKS) * len(rows)
        attempts = [AttemptRecord(1, outcome, round(seconds, 1), blame)]
        if self.random.random() < 0.01:
            attempts = [AttemptRecord(1, Outcome.FAILED, 60.0, "infra"), replace(attempts[0], number=2)]
            steps = [replace(s, attempt=2) for s in steps]
            rows = [replace(r, attempt=2) for r in rows]
            note = replace(note, attempt=2)
        return Record(
            **self.common(cell, night, start, seconds),
            outcome=outcome,
            blame=blame,
            attempts=tuple(attempts),
            steps=tuple(steps),
            checks=CheckTable(CHECKS, tuple(rows)),
            notes=(note,) if failing else (),
            counts={"passed": len(CHECKS) - bool(failing), **({"failed": 1} if failing else {})},
        )


def records(nights: int = 365, cells_: int = 60, seed: int = 1, *, compacted: bool = True) -> tuple[Record, ...]:
    """Return a history, oldest first; with details only of the last days unless it is not compacted."""
    found = Year(nights, seed, cells(cells_, seed)).records()
    before = NOW - timedelta(days=KEPT_DAYS)
    return once(forget(r) if compacted and r.start < before else r for r in found)


def planned(nights: int = 365, cells_: int = 60, seed: int = 1) -> Planned:
    """Return the plan of such a history, with one cell that never ran."""
    plan = cells(cells_, seed)
    extra = dict(next(iter(plan.values())), source="mirror", network="routes", scenario="scale")
    return Planned(plan | {_id(extra): extra}, AXES, 24.0, quarantine(nights))


@cache  # frozen: several tests read the same one
def analysis(nights: int = 365, cells_: int = 60, seed: int = 1, now: datetime = NOW) -> Analysis:
    """Return the analysis of such a history."""
    selection = RecordFilter(tier="nightly", branch="main")
    return analyse(records(nights, cells_, seed), planned(nights, cells_, seed), selection, now)


def document(nights: int = 365, cells_: int = 60, seed: int = 1, now: datetime = NOW) -> dict[str, Any]:
    """Return the report's document of such a history."""
    damaged = (Skipped("history.jsonl", 12_001, 'Invalid JSON: EOF while parsing: \'{"v":1,"id"\''),)
    history = History(records(nights, cells_, seed), 3, damaged, ("history.jsonl",))
    return as_document(analysis(nights, cells_, seed, now), history, title="vmatrix nightly")


def today() -> date:
    """Return the day of the last night's report."""
    return NOW.date()


if __name__ == "__main__":
    size = dict(zip(("nights", "cells_", "seed"), map(int, sys.argv[2:]), strict=False))
    made = document(**size)  # type: ignore[arg-type]  # none of the names is that of the moment
    Path(sys.argv[1]).write_text(json.dumps(made, separators=(",", ":")), encoding="utf-8")

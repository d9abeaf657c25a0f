"""Where a run, a command or a part of the infrastructure is ended, as data: by name, when, what, and how."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubevirt", "mirror", "registry")


@dataclass(frozen=True)
class Step:
    """The beginning of a recorded step; () is the start of the run."""

    path: tuple[str, ...]

    def __str__(self) -> str:
        return " / ".join(self.path) or "start of the run"


@dataclass(frozen=True)
class Task:
    """Some words in the log of the phase `deploy`: a task of the playbook has begun."""

    words: str

    def __str__(self) -> str:
        return f"deploy, task {self.words}"


@dataclass(frozen=True)
class Check:
    """The first check that has ended, of any suite or of one."""

    suite: str = ""

    def __str__(self) -> str:
        return f"first check of {self.suite}" if self.suite else "first check"


@dataclass(frozen=True)
class Nth:
    """The k-th call of a kind in a process (tests/kill/hook): it ends itself before that call is made."""

    kind: str
    count: int

    def __str__(self) -> str:
        names = {"write": "API write", "file": "file written", "process": "process started", "remove": "file removed"}
        return f"{names[self.kind]} no. {self.count}"


Moment = Step | Task | Check | Nth


@dataclass(frozen=True)
class KillPoint:
    """One point.

    what: `run` (its process), `group` (with all that it started), `worker`, one of PARTS, or `power`: all of it at
    once. how: `KILL`, `TERM`, `disk full`, `memory`.  command: what is run; `up` and `down` are of the instance.
    """

    name: str
    moment: Moment
    what: str = "run"
    how: str = "KILL"
    command: str = "run"

    @property
    def alone(self) -> bool:
        """Tell whether the point needs an instance of its own: one without a golden image, or one that dies."""
        return self.what == "power" or self.moment == Step(IMAGE)


START, MACHINES, IMAGE, LOGIN = (), ("provision", "machines"), ("provision", "golden image"), ("provision", "login")
DEPLOY, COLLECT, TEARDOWN = ("deploy",), ("collect",), ("teardown",)
STEPS = (START, ("provision",), ("provision", "namespace"), IMAGE, ("provision", "objects"), MACHINES, LOGIN, DEPLOY)


def _name(path: tuple[str, ...]) -> str:
    return (path[-1] if path else "start").replace(" ", "-")


def _of_runs() -> Iterator[KillPoint]:
    """Yield points at which the run itself ends, by a signal or for want of something."""
    for path in (*STEPS, COLLECT, TEARDOWN):
        yield KillPoint(f"kill-run-at-{_name(path)}", Step(path))
    yield KillPoint("kill-run-at-check", Check())
    yield KillPoint("kill-run-at-conformance", Check("conformance"))
    yield KillPoint("kill-run-at-join", Task("Initialise the first control plane"))
    for path in (START, IMAGE, MACHINES, LOGIN, DEPLOY, COLLECT, TEARDOWN):
        yield KillPoint(f"term-run-at-{_name(path)}", Step(path), how="TERM")
    for kind, counts in {"write": (1, 3, 6, 10), "file": (1, 8, 30), "process": (1, 3, 6)}.items():
        yield from (KillPoint(f"kill-run-at-{kind}-{count}", Nth(kind, count)) for count in counts)
    for path in (MACHINES, DEPLOY):
        yield KillPoint(f"disk-full-at-{_name(path)}", Step(path), how="disk full")
    yield KillPoint("memory-at-machines", Step(MACHINES), how="memory")


def _of_others() -> Iterator[KillPoint]:
    """Yield points at which others end: what a run has started, parts of the infrastructure, all of it."""
    for path in (MACHINES, DEPLOY):
        yield KillPoint(f"kill-group-at-{_name(path)}", Step(path), "group")
        yield KillPoint(f"kill-worker-at-{_name(path)}", Step(path), "worker")
    yield KillPoint("kill-group-at-conformance", Check("conformance"), "group")
    for what, path in ENDING_PARTS:
        yield KillPoint(f"kill-{what}-at-{_name(path)}", Step(path), what)
    for path in (IMAGE, MACHINES, DEPLOY, TEARDOWN):
        yield KillPoint(f"power-at-{_name(path)}", Step(path), "power")


def _of_commands() -> Iterator[KillPoint]:
    """Yield points at which commands on the instance end."""
    for kind, count in (("file", 3), ("process", 2), ("process", 5)):
        yield KillPoint(f"kill-up-at-{kind}-{count}", Nth(kind, count), command="up")
    for kind, count in (("remove", 2), ("process", 1)):
        yield KillPoint(f"kill-down-at-{kind}-{count}", Nth(kind, count), command="down")


ENDING_PARTS = (
    *((what, path) for what in ("etcd", "kube-apiserver") for path in (IMAGE, DEPLOY)),
    *(("kubevirt", path) for path in (MACHINES, DEPLOY, TEARDOWN)),
    ("kube-controller-manager", TEARDOWN),
    ("kube-scheduler", MACHINES),
    ("mirror", DEPLOY),
    ("registry", DEPLOY),
)
POINTS = (*_of_runs(), *_of_others(), *_of_commands())

"""Termination of an executor: the message that it leaves, and what its pod says where it could not leave one.

https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from harness.errors import Blame, InfraRetriable, VmatrixError
from harness.kube.client import Cluster
from harness.kube.failures import Json
from harness.kube.objects import dig, is_condition
from harness.kube.resources import JOB
from harness.machines.runner.playbook_output import TaskFailure, ended_by, recap
from harness.operator.api.resources import GROUP
from harness.operator.execute.object_store import StoreTrouble

ANNOTATION = f"{GROUP}/progress"
EVERY_SECONDS = 5.0  # between writes: who looks at a task that takes minutes is not served by more


@dataclass
class PlayProgress:
    """What is told to the API: the newest, now and then. That it cannot be told ends no operation.

    write: gives the annotation its value.
    """

    write: Callable[[str], object]
    every: float = EVERY_SECONDS
    play: str = ""
    task: str = ""
    _ended: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Begin to tell."""
        threading.Thread(target=self._tell, name="progress", daemon=True).start()

    def stop(self) -> None:
        """Tell no more. What a request under way does is of no interest then."""
        self._ended.set()

    def _tell(self) -> None:
        told = ""
        while True:
            progress = json.dumps({"play": self.play, "task": self.task})
            if self.play and progress != told:
                try:
                    self.write(progress)
                    told = progress
                except VmatrixError:  # the next one may be told
                    pass
            if self._ended.wait(self.every):
                return


def annotate(cluster: Cluster, namespace: str, job: str, value: str) -> Json:
    """Write the annotation of a Job; return the Job."""
    return cluster.merge(JOB, job, {"metadata": {"annotations": {ANNOTATION: value}}}, namespace)


def progress_of(job: Json) -> tuple[str, str]:
    """Return the play and the task that a Job's executor is at; "" where it has not said."""
    try:
        progress = json.loads(dig(job, "metadata", "annotations", ANNOTATION) or "{}")
        return str(progress.get("play", "")), str(progress.get("task", ""))
    except (ValueError, AttributeError):
        return "", ""


Outcome = Literal["succeeded", "failed", "interrupted", "cancelled"]
SnapshotFact = str | int | list[str] | dict[str, str]
MOST_BYTES = 4096  # of a container's message; a kubelet cuts what is longer
CUT = "..."
# What gives way where all does not fit, in turn, and how many characters of it stay: a reader needs the summary most.
SHORTENED = (("summary", 1200), ("hint", 400), ("recap", 0), ("hint", 0), ("summary", 0), ("play", 0), ("task", 0))
LAST_RESORT = (("host", 0), ("revision", 0), ("blame", 0))


@dataclass(frozen=True)
class Termination:
    """The end of one executor.

    blame: product, infra, harness or user; "" where nobody is.  recap: what was done on each host, in Ansible's words.
    revision: of the playbooks.  snapshot: what was found out about the snapshot of etcd that it took.
    reason: of a failure whose kind is known, as one word.
    """

    outcome: Outcome
    blame: str = ""
    play: str = ""
    task: str = ""
    host: str = ""
    summary: str = ""
    hint: str = ""
    recap: Mapping[str, str] = field(default_factory=dict)
    revision: str = ""
    reason: str = ""
    snapshot: Mapping[str, SnapshotFact] = field(default_factory=dict)

    def to_text(self) -> str:
        """Return the message; what is too long for it is cut, and says so."""
        fitting = self
        for name, least in (*SHORTENED, *LAST_RESORT):
            while len(fitting.as_bytes()) > MOST_BYTES and len(getattr(fitting, name)) > least:
                fitting = _shorter(fitting, name, least)
        return fitting.as_bytes().decode()

    def as_bytes(self) -> bytes:
        """Return the message without regard to its length."""
        fields_set = {key: value for key, value in asdict(self).items() if value}
        return json.dumps(fields_set, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")

    @staticmethod
    def parse(text: str) -> Termination | None:
        """Read a message; None where it is none: the program was killed, or is another one."""
        try:
            return MESSAGE.validate_json(text)
        except ValidationError:
            return None


MESSAGE = TypeAdapter(Termination)


def clipped(text: str, most: int) -> str:
    """Return a text of at most so many characters, which shows where it was cut; nothing where that has no room."""
    return text if len(text) <= most else text[: most - len(CUT)] + CUT if most > len(CUT) else ""


def _shorter(termination: Termination, name: str, least: int) -> Termination:
    """Return the same with a field by a quarter shorter, or one host less in the recap."""
    if name == "recap":
        return replace(termination, recap=dict(list(termination.recap.items())[:-1]))
    text: str = getattr(termination, name)
    changed = {name: clipped(text, max(least, len(text) * 3 // 4))}
    return replace(termination, **changed)  # type: ignore[arg-type] # all of them are text


REVISION = "VMATRIX_REVISION"  # the variable of an image with the commit that it was made of
ANSWER = "see whether the machine is up, and whether an executor's pod reaches its address and port"
REPEATED = "the operation is repeated"
# Plays and tasks of the packaged playbooks that fail because of what the object asks for, and of nothing else.
REQUEST_PLAYS = frozenset(
    {
        "Check the request before any machine changes",
        "Refuse settings that cannot work",
        "Refuse a Kubernetes version that differs from the running one",
    }
)
ROLE_REFUSALS: Mapping[str, tuple[str, ...]] = {
    "adoption": (
        "Refuse machines of no cluster, or of several",
        "Refuse a cluster with other nodes, control planes or etcd members",
    ),
    "bootstrap_os": ("Refuse an operating system with unknown package names",),
    "clone_check": (
        "Refuse a clone of another snapshot where one has begun",
        "Refuse machines of a cluster",
        "Refuse to begin on another machine than the one that has the snapshot's data",
        "Refuse the snapshot of a later etcd",
        "Refuse the snapshot of another Kubernetes",
        "Refuse a snapshot whose Secrets nobody could read",
    ),
    "ca_keys_removal": ("Refuse to remove a key that the controller does not have",),
    "control_plane": ("Refuse the configuration", "Refuse another place in etcd"),
    "encryption_key": (
        "Refuse another key than the one that encrypts",
        "Refuse to change keys where nothing is encrypted",
    ),
    "etcd": ("Refuse flags that etcd does not know",),
    "etcd_clone": (
        "Refuse another snapshot than the one that is described",
        "Refuse Secrets that nobody could read",
    ),
    "etcd_restore": (
        "Refuse the snapshot of a later etcd",
        "Refuse a snapshot whose Secrets no API server could read",
    ),
    "external_ca": (
        "Refuse a CA whose halves do not belong together",
        "Refuse a machine with the key of a CA",
        "Refuse to begin with other CAs than the cluster's",
        "Refuse to sign with other CAs than the cluster's",
    ),
    "foreign_nodes": ("Refuse to wait for a foreign node",),
    "etcd_inventory": ("Refuse an inventory without etcd",),
    "etcd_prefix": ("Refuse a prefix that is not one",),
    "etcd_upgrade": (
        "Refuse an etcd that has no machines of its own",
        "Refuse another version than the one that is installed",
        "Refuse a downgrade",
        "Refuse to skip a minor version",
    ),
    "etcd_users": ("Refuse an etcd that has no machines of its own",),
    "kubeadm_upgrade": ("Refuse to lose the key of encrypted Secrets",),
    "network_plugin": ("Refuse an MTU that the machine's interface does not have",),
    "preflight": (
        "Refuse a request with mistakes",
        "Refuse what the mirror lacks",
        "Refuse certificates that have expired",
    ),
    "preinstall": ("Refuse a kernel without a feature",),
    "removal": ("Refuse to remove the last control plane", "Refuse to remove a majority of the etcd members"),
    "rebuild_check": (
        "Refuse CAs of another cluster",
        "Refuse the snapshot of a later etcd",
        "Refuse a snapshot whose Secrets no API server could read",
        "Refuse to begin a control plane beside a former one",
        "Refuse to begin beside a control plane that has joined the lost cluster half",
    ),
    "running_version": (
        "Refuse another folder of certificates",
        "Refuse a different version",
        "Refuse another container runtime, or another version of it",
    ),
    "settings": ("Say what failed, and that the former settings run",),
    "version_skew": (
        "Refuse another folder of certificates",
        "Refuse a different version, except in an upgrade",
        "Refuse another version of the container runtime, except in an upgrade",
        "Refuse another container runtime",
        "Refuse a downgrade of the container runtime",
        "Refuse a downgrade",
        "Refuse to go back to the API of an earlier minor version",
        "Refuse to skip a minor version",
        "Refuse a kubelet newer than an API server",
        "Refuse a kubelet that the new API server does not support",
        "Refuse to upgrade a machine ahead of the control planes",
        "Refuse an older etcd",
    ),
    "virtual_address": ("Refuse an address of another network",),
}
REQUEST_TASKS = frozenset(f"{role} : {task}" for role, tasks in ROLE_REFUSALS.items() for task in tasks)
# A role's own check of its variables, in ansible-core's words, and kubeadm's of images that the registry has not.
WRONG_VARIABLES = re.compile(r"(?:\S+ : )?Validating arguments against arg spec ")
NO_SUCH_IMAGE = re.compile(r"\[ERROR ImagePull\].*(?:not found|manifest unknown)", re.IGNORECASE)


class ExecutorInterrupted(InfraRetriable):
    """An executor was told to end before its playbook had."""

    def __init__(self) -> None:
        super().__init__("the executor was told to end before the playbook had ended", hint=REPEATED)


def revision() -> str:
    """Return what the playbooks are of: a commit where the image names one, else the version of vmatrix."""
    return os.environ.get(REVISION) or metadata.version("vmatrix")


def end_of(error: VmatrixError | None, at: PlayProgress, events: Path, output: str, log: str) -> Termination:
    """Return the end of a playbook; `error`: what it failed with.

    Args:
        at: where it was.  events: the failures that Ansible told; the first one says better where it was.
        output: what it printed.  log: the command that shows the operation's log.
    """
    done = {
        host.host: f"ok={host.ok} changed={host.changed} unreachable={host.unreachable} failed={host.failed}"
        for host in recap(output)
    }
    if error is None:
        return Termination("succeeded", recap=done, revision=revision())
    ended = ended_by(events)
    first = ended.first if ended is not None else None
    return Termination(
        outcome="interrupted" if isinstance(error, ExecutorInterrupted) else "failed",
        blame=Blame.USER if first is not None and _by_request(error, first) else error.blame,
        play=(first.play if first is not None else "") or at.play,
        task=first.task if first is not None else at.task,
        host=first.host if first is not None else "",
        summary=error.summary,
        hint=_hint(error, first is not None and first.unreachable, log),
        recap=done,
        revision=revision(),
        reason=error.reason if isinstance(error, StoreTrouble) else "",
    )


def _by_request(error: VmatrixError, first: TaskFailure) -> bool:
    """Tell whether what was asked for is to blame, as the playbooks, one of their modules or kubeadm say."""
    if first.unreachable or error.blame != Blame.PRODUCT:
        return False
    if first.play in REQUEST_PLAYS or first.task in REQUEST_TASKS or WRONG_VARIABLES.match(first.task):
        return True
    messages = [str(first.result.get("msg")), *map(str, first.result.get("stderr_lines") or ())]
    return first.result.get("blame") == Blame.USER or any(map(NO_SUCH_IMAGE.search, messages))


def _hint(error: VmatrixError, unreachable: bool, log: str) -> str:
    """Return what to do next. Files that the error names lie in a pod that is gone: the log is kept elsewhere."""
    if isinstance(error, StoreTrouble):
        return error.hint
    if isinstance(error, InfraRetriable):
        return REPEATED
    if error.blame == Blame.INFRA and unreachable:
        return ANSWER
    return f"`{log}` shows all that Ansible said" if error.paths else error.hint


AGAIN = "the operation is repeated; `kubectl describe pod` of an executor and its node's log say more"
# What a container waits for that never comes by itself, in the kubelet's words.
NO_IMAGE = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerError"}
)


def of_pod(pod: Json | None) -> Termination:
    """Return how an executor ended that is not running any more.

    Args:
        pod: as it was seen last; None where it is gone.
    """
    if pod is None:
        return _infra("the executor's pod is gone, and nobody has seen it end", AGAIN)
    ended = dig(_container(pod), "state", "terminated")
    if ended is not None and (told := Termination.parse(str(ended.get("message") or ""))) is not None:
        return told
    if is_condition(pod, "DisruptionTarget", "True"):
        return _infra("the executor was evicted from its node", AGAIN)
    if ended is not None:
        code, reason = ended.get("exitCode"), ended.get("reason") or "no reason"
        hint = "give its node more memory, or its Job a higher limit" if reason == "OOMKilled" else AGAIN
        return _infra(f"the executor was killed before it could say how it ended: {reason}, status {code}", hint)
    if (why := waits_for(pod)) is not None:
        return Termination("failed", blame=Blame.HARNESS, summary=f"the executor cannot start: {why}", hint=AGAIN)
    reason = dig(pod, "status", "reason") or "no reason"
    return _infra(f"the executor's pod ended before its program did: {reason}", AGAIN)


def waits_for(pod: Json) -> str | None:
    """Return what keeps an executor from being started, for good; None where nothing does."""
    waiting = dig(_container(pod), "state", "waiting")
    if waiting is None or waiting.get("reason") not in NO_IMAGE:
        return None
    return f"{waiting['reason']}: {waiting.get('message') or 'no message'}"


def _container(pod: Json) -> Json:
    statuses = dig(pod, "status", "containerStatuses") or []
    return statuses[0] if statuses else {}


def _infra(summary: str, hint: str) -> Termination:
    return Termination("interrupted", blame=Blame.INFRA, summary=summary, hint=hint)

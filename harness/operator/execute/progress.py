"""Where an executor is: the play and the task, as an annotation of its own Job."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.errors import VmatrixError
from harness.kube.client import Cluster
from harness.kube.failures import Json
from harness.kube.objects import dig
from harness.kube.resources import JOB
from harness.operator.api.resources import GROUP

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
            said = json.dumps({"play": self.play, "task": self.task})
            if self.play and said != told:
                try:
                    self.write(said)
                    told = said
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
        said = json.loads(dig(job, "metadata", "annotations", ANNOTATION) or "{}")
        return str(said.get("play", "")), str(said.get("task", ""))
    except (ValueError, AttributeError):
        return "", ""

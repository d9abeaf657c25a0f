"""What an import or a clone calls its phases and events."""

from __future__ import annotations

from dataclasses import dataclass

from harness.embedded.cdi.claims import clone_source
from harness.embedded.events import NORMAL, WARNING
from harness.kube.client import Json


@dataclass(frozen=True)
class Notice:
    """An event to tell: its type, reason and message."""

    kind: str
    reason: str
    message: str


@dataclass(frozen=True)
class Words:
    """How an import or a clone calls its phases and events."""

    scheduled: str
    in_progress: str
    succeeded: str
    failed: str
    messages: tuple[str, str, str, str]

    def notice(self, reached: str) -> Notice | None:
        """Return the event that goes with reaching a phase."""
        phases = (self.scheduled, self.in_progress, "Succeeded", "Failed")
        reasons = (self.scheduled, self.in_progress, self.succeeded, self.failed)
        told = {at: (reason, message) for at, reason, message in zip(phases, reasons, self.messages, strict=True)}
        return Notice(WARNING if reached == "Failed" else NORMAL, *told[reached]) if reached in told else None


def words_of(dv: Json) -> Words:
    """Return the vocabulary of a DataVolume: that of an import, or that of a clone."""
    name = dv["metadata"]["name"]
    source = clone_source(dv)
    if source is None:
        told = (
            f"Import into {name} scheduled",
            f"Import into {name} in progress",
            f"Successfully imported into PVC {name}",
            f"Failed to import into PVC {name}",
        )
        return Words("ImportScheduled", "ImportInProgress", "ImportSucceeded", "ImportFailed", told)
    path = f"from {'/'.join(source)} into {dv['metadata']['namespace']}/{name}"
    told = (
        f"Cloning {path} scheduled",
        f"Cloning {path} in progress",
        f"Successfully cloned {path}",
        f"Cloning {path} failed",
    )
    return Words("CloneScheduled", "CloneInProgress", "CloneSucceeded", "CloneFailed", told)

"""How an executor ended: what it says in its termination message, and what its pod says where it could not.

https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from pydantic import TypeAdapter, ValidationError

Outcome = Literal["succeeded", "failed", "interrupted", "cancelled"]
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
    snapshot: Mapping[str, str | int] = field(default_factory=dict)

    def to_text(self) -> str:
        """Return the message; what is too long for it is cut, and says so."""
        fitting = self
        for name, least in (*SHORTENED, *LAST_RESORT):
            while len(fitting.as_bytes()) > MOST_BYTES and len(getattr(fitting, name)) > least:
                fitting = _shorter(fitting, name, least)
        return fitting.as_bytes().decode()

    def as_bytes(self) -> bytes:
        """Return the message without regard to its length."""
        said = {key: value for key, value in asdict(self).items() if value}
        return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")

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


def _shorter(one: Termination, name: str, least: int) -> Termination:
    """Return the same with a field by a quarter shorter, or one host less in the recap."""
    if name == "recap":
        return replace(one, recap=dict(list(one.recap.items())[:-1]))
    text: str = getattr(one, name)
    changed = {name: clipped(text, max(least, len(text) * 3 // 4))}
    return replace(one, **changed)  # type: ignore[arg-type] # all of them are text

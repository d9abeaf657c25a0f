"""What the recorded guest's machines printed of their files, changed as a test wants."""

from __future__ import annotations

from harness.validate.facts.files import MachineFiles, files_of
from tests.unit.validate.guests import Change, Json
from tests.unit.validate.kept import recorded


def files(change: Change = lambda _: None, *, of: str = "w-0") -> dict[str, MachineFiles]:
    """Return all machines' files, those of one machine changed."""
    raw = {name: recorded(f"files-{name}.json") for name in ("cp-0", "w-0")}
    change(raw[of])
    return {name: files_of(one) for name, one in raw.items()}


def mode(path: str, octal: int, *, owner: int = 0, secret: bool | None = None) -> Change:
    """Return a change of the permissions of a file, which is there or new."""

    def change(raw: Json) -> None:
        kind, _, _, group, has_key = raw["files"].get(path, ["file", 0, 0, 0, False])
        raw["files"][path] = [kind, octal, owner, group, has_key if secret is None else secret]

    return change

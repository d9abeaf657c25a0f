#!/usr/bin/python
"""Ansible module: have small text files on a host, and what runs in line with them, in one round trip.

Covers files, whole or as marked blocks (parents made 0755; content, mode; atomic), then a script that is run every time
and prints what it had to change. What it writes it also writes into a ledger on the host, together with what was there
before, so that `state: absent` leaves the host as it was. Does not cover owners (always the login user's, which is
root), links or binaries: see versioned_binaries for those.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: host_configuration
short_description: Have small text files on a host, and what runs in line with them, in one round trip
description:
  - Writes each file whose content or mode differs, atomically, and makes missing parent folders.
  - Then runs the script, whether a file differed or not, so that what a killed run left undone is done by the next one.
  - Changed when a file differed or the script printed something. Check mode does not run the script.
  - With state absent, undoes all that earlier executions wrote, newest first, whatever roles they were for. A unit is
    stopped and disabled before its file goes, a file that was there before comes back, folders that were made go when
    they are empty.
  - One execution however many files there are; a copy or template task costs two executions and a transfer per file.
options:
  files:
    description: The files.
    type: list
    elements: dict
    default: []
    suboptions:
      path: {description: Absolute path., type: str, required: true}
      content: {description: The text., type: str, required: true}
      mode: {description: Permissions as an octal string., type: str, default: "0644"}
      block:
        description: Name of a block; the rest of the file stays as it is, and a mode is only given to a new file.
        type: str
      validate:
        description: A command that fails where the text cannot be read by what it is for; "%s" is a file that has it.
        type: str
      private: {description: The text is never shown, not as a difference either., type: bool, default: false}
  script: {description: A script for /bin/sh that prints what it changes., type: str}
  stdin: {description: What the script reads; never shown., type: str}
  creates: {description: A path whose presence says that the script has nothing to do., type: path}
  state:
    description: Whether to have the files or to undo all of them.
    type: str
    default: present
    choices: [present, absent]
  ledger: {description: The folder that holds the ledger., type: path, default: /var/lib/host-configuration}
author: [vmatrix]
"""

EXAMPLES = r"""
- name: Forward packets, now and at every boot
  host_configuration:
    files:
      - {path: /etc/sysctl.d/90-forward.conf, content: "net.ipv4.ip_forward = 1\n"}
    script: |
      [ "$(sysctl -n net.ipv4.ip_forward)" = 1 ] || sysctl -w net.ipv4.ip_forward=1
"""

RETURN = r"""
written: {description: Paths that differed., returned: state is present, type: list, elements: str}
undone: {description: Paths that were removed or brought back., returned: state is absent, type: list, elements: str}
stdout_lines: {description: What the script printed., returned: always, type: list, elements: str}
"""

REFUSED = 65  # EX_DATAERR of sysexits(3): a script refuses what was asked for; its last words say why
TAIL_LINES = 20
WARNING, ERROR = (re.compile(rf"\s*\[{mark} [^]]+\]:") for mark in ("WARNING", "ERROR"))  # of kubeadm's preflight
UNITS = Path("/etc/systemd/system")
UNIT_KINDS = {".service", ".path", ".timer", ".socket"}
FILE_SPEC = {
    "path": {"type": "str", "required": True},
    "content": {"type": "str", "required": True},
    "mode": {"type": "str", "default": "0644"},
    "block": {"type": "str"},
    "validate": {"type": "str"},
    "private": {"type": "bool", "default": False},
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "files": {"type": "list", "elements": "dict", "default": [], "options": FILE_SPEC},
    "script": {"type": "str"},
    "stdin": {"type": "str", "default": "", "no_log": True},
    "creates": {"type": "path"},
    "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
    "ledger": {"type": "path", "default": "/var/lib/host-configuration"},
}
PRIVATE = "(private)\n"


def with_block(text: str, name: str, block: str) -> str:
    """Return `text` with the lines between the named block's markers replaced, or the block added at the end."""
    begin, end = f"# BEGIN {name}\n", f"# END {name}\n"
    wanted = begin + block + ("" if block.endswith("\n") or not block else "\n") + end
    head, found, rest = text.partition(begin)
    if found:
        _, closed, tail = rest.partition(end)
        if not closed:  # a block that lost its end marker ends with the file
            tail = ""
        return head + wanted + tail
    if text and not text.endswith("\n"):
        text += "\n"
    return text + wanted


def without_block(text: str, name: str) -> str:
    """Return `text` without the named block and its markers."""
    head, found, rest = text.partition(f"# BEGIN {name}\n")
    return head + rest.partition(f"# END {name}\n")[2] if found else text


def differs(path: Path, content: str, mode: int | None) -> bool:
    """Tell whether the file is absent, has other content, or (where a mode is wanted) other permissions."""
    try:
        if path.read_text(encoding="utf-8", errors="surrogateescape") != content:
            return True
        return mode is not None and path.stat().st_mode & 0o7777 != mode
    except FileNotFoundError:
        return True


def write(path: Path, content: str, mode: int) -> None:
    """Replace a file in one step, so that a reader or a killed run never meets half of it."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as sink:
            sink.write(content)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def validate(command: str, path: Path, content: str) -> None:
    """Have what a file is for judge a text before the file has it.

    Raises:
        ValueError: it is refused; with what the command said last.
    """
    with tempfile.TemporaryDirectory() as folder:
        candidate = Path(folder) / path.name
        write(candidate, content, 0o600)
        argv = [word.replace("%s", str(candidate)) for word in shlex.split(command)]
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or f"status {done.returncode}").splitlines()
        raise ValueError(f"{path} was not changed: {said[-1]}")


class Ledger:
    """What was written on this host, oldest first, each with what was there before; whole at every moment."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger.json"
        self.entries: list[dict[str, Any]] = []
        if self.path.exists():
            self.entries = json.loads(self.path.read_text(encoding="utf-8"))

    def add(self, path: Path, block: str | None) -> None:
        """Note a file, or a block of one, that is about to be written; only the first time counts."""
        if any((entry["path"], entry["block"]) == (str(path), block) for entry in self.entries):
            return
        before: dict[str, str] | None = None
        if path.exists():
            mode = f"{path.stat().st_mode & 0o7777:04o}"
            content = "" if block else path.read_text(encoding="utf-8", errors="surrogateescape")
            before = {"content": content, "mode": mode}
        made = [str(folder) for folder in path.parents if not folder.exists()]
        self.entries.append({"path": str(path), "block": block, "before": before, "made": made})
        self.save()

    def save(self) -> None:
        """Write the ledger, which may hold what was in private files."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write(self.path, json.dumps(self.entries, indent=1), 0o600)

    def close(self) -> None:
        """Forget everything, because everything is undone."""
        self.path.unlink(missing_ok=True)
        if self.path.parent.is_dir() and not any(self.path.parent.iterdir()):
            self.path.parent.rmdir()


def restore(entry: dict[str, Any]) -> None:
    """Bring one file back to what it was, and remove the folders that were made for it when nothing else is in them."""
    path, before = Path(entry["path"]), entry["before"]
    if entry["block"] and path.exists():
        mode = path.stat().st_mode & 0o7777
        rest = without_block(path.read_text(encoding="utf-8", errors="surrogateescape"), entry["block"])
        if rest or before:
            write(path, rest, mode)
        else:
            path.unlink()
    elif not entry["block"] and before:
        write(path, before["content"], int(before["mode"], 8))
    elif not entry["block"]:
        path.unlink(missing_ok=True)
    for folder in map(Path, entry["made"]):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def is_unit(path: Path) -> bool:
    """Tell whether a file is what systemd runs something by."""
    return path.parent == UNITS and path.suffix in UNIT_KINDS


def systemctl(*words: str) -> None:
    """Ask systemd for something that may be so already."""
    subprocess.run(["/usr/bin/systemctl", "--quiet", *words], capture_output=True, check=False)


def stop(unit: str) -> None:
    """Stop a unit, now and at every boot. One that is unknown to systemd is stopped already."""
    for words in (["disable", "--now", unit], ["reset-failed", unit]):
        systemctl(*words)


def undo(ledger: Ledger, *, dry: bool) -> list[str]:
    """Undo what the ledger has, newest first; return the paths."""
    entries = list(reversed(ledger.entries))
    units = [path.name for path in (Path(entry["path"]) for entry in entries if not entry["before"]) if is_unit(path)]
    if not dry:
        for unit in units:
            stop(unit)
        for entry in entries:
            restore(entry)
        if units:
            systemctl("daemon-reload")
        ledger.close()
    return [entry["path"] for entry in entries]


def apply(files: list[dict[str, Any]], ledger: Ledger, *, dry: bool) -> tuple[list[str], list[dict[str, str]]]:
    """Bring every file in line; return the paths that differed and their differences for `--diff`."""
    written: list[str] = []
    differences: list[dict[str, str]] = []
    for wanted in files:
        path, content = Path(wanted["path"]), str(wanted["content"])
        mode: int | None = int(wanted["mode"], 8)
        present = path.exists()
        before = path.read_text(encoding="utf-8", errors="surrogateescape") if present else ""
        if wanted["block"]:
            content = with_block(before, wanted["block"], content)
            mode = path.stat().st_mode & 0o7777 if present else mode
        if not differs(path, content, mode):
            continue
        written.append(str(path))
        shown = (PRIVATE if before else "", PRIVATE) if wanted.get("private") else (before, content)
        differences.append(
            {"before_header": str(path), "after_header": str(path), "before": shown[0], "after": shown[1]}
        )
        if not dry:
            if wanted.get("validate"):
                validate(wanted["validate"], path, content)
            ledger.add(path, wanted["block"])
            write(path, content, mode if mode is not None else 0o644)
    return written, differences


def run(script: str, stdin: str) -> subprocess.CompletedProcess[str]:
    """Run a script to its end, fed through a pipe and not through its arguments, which every user could read."""
    return subprocess.run(
        ["/bin/sh", "-c", script], input=stdin, capture_output=True, text=True, errors="replace", check=False
    )


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """Return what a failed script said last, for a person: what kubeadm calls an error comes first, no warning does."""
    said = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()
    lines = [line for line in said if not WARNING.match(line)] or said
    last = lines[-TAIL_LINES:]
    errors = [line.strip() for line in last if ERROR.match(line)]
    others = [line for line in last if not ERROR.match(line)]
    return f"the script ended with status {done.returncode}: " + "\n".join([*errors, *others])


def failure(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Return what is reported of a failed script: its last words, and whose fault it is where it says so."""
    if done.returncode != REFUSED:
        return {"msg": complaint(done)}
    return {"msg": "\n".join(done.stderr.splitlines()[-TAIL_LINES:]), "blame": "user"}


def main() -> None:
    """Run as an Ansible module."""
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    given = module.params
    module.no_log_values.update(file["content"] for file in given["files"] if file["private"])
    ledger = Ledger(Path(given["ledger"]))
    try:
        if given["state"] == "absent":
            undone = undo(ledger, dry=module.check_mode)
            module.exit_json(changed=bool(undone), undone=undone)
        written, differences = apply(given["files"], ledger, dry=module.check_mode)
    except ValueError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"cannot write {error.filename}: {error.strerror}")
    result: dict[str, Any] = {"written": written, "diff": differences, "stdout_lines": []}
    done_before = given["creates"] is not None and os.path.exists(given["creates"])
    if given["script"] and not done_before and not module.check_mode:
        done = run(given["script"], given["stdin"])
        result["stdout_lines"] = done.stdout.splitlines()
        if done.returncode != 0:
            module.fail_json(**failure(done), **result)
    module.exit_json(changed=bool(written or result["stdout_lines"]), **result)


if __name__ == "__main__":
    main()

#!/usr/bin/python
"""Ansible module: have small text files on a host, and what runs in line with them, in one round trip.

Covers files, whole or as marked blocks (parents made 0755; content, mode; atomic), then a script that is run every time
and prints what it had to change. Does not cover owners (always the login user's, which is root), links or binaries: see
versioned_binaries for those.
"""

from __future__ import annotations

import os
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
  script: {description: A script for /bin/sh that prints what it changes., type: str}
  stdin: {description: What the script reads; never shown., type: str}
  creates: {description: A path whose presence says that the script has nothing to do., type: path}
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
written: {description: Paths that differed., returned: always, type: list, elements: str}
stdout_lines: {description: What the script printed., returned: always, type: list, elements: str}
"""

TAIL_LINES = 20
FILE_SPEC = {
    "path": {"type": "str", "required": True},
    "content": {"type": "str", "required": True},
    "mode": {"type": "str", "default": "0644"},
    "block": {"type": "str"},
}


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


def apply(files: list[dict[str, Any]], *, dry: bool) -> tuple[list[str], list[dict[str, str]]]:
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
        differences.append({"before_header": str(path), "after_header": str(path), "before": before, "after": content})
        if not dry:
            write(path, content, mode if mode is not None else 0o644)
    return written, differences


def run(script: str, stdin: str) -> subprocess.CompletedProcess[str]:
    """Run a script to its end, fed through a pipe and not through its arguments, which every user could read."""
    return subprocess.run(
        ["/bin/sh", "-c", script], input=stdin, capture_output=True, text=True, errors="replace", check=False
    )


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """Return what a failed script said last, for a person."""
    said = done.stderr.strip() or done.stdout.strip() or "it said nothing"
    return f"the script ended with status {done.returncode}: " + "\n".join(said.splitlines()[-TAIL_LINES:])


def main() -> None:
    """Run as an Ansible module."""
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "list", "elements": "dict", "default": [], "options": FILE_SPEC},
            "script": {"type": "str"},
            "stdin": {"type": "str", "default": "", "no_log": True},
            "creates": {"type": "path"},
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        written, differences = apply(given["files"], dry=module.check_mode)
    except OSError as error:
        module.fail_json(msg=f"cannot write {error.filename}: {error.strerror}")
    result: dict[str, Any] = {"written": written, "diff": differences, "stdout_lines": []}
    done_before = given["creates"] is not None and os.path.exists(given["creates"])
    if given["script"] and not done_before and not module.check_mode:
        done = run(given["script"], given["stdin"])
        result["stdout_lines"] = done.stdout.splitlines()
        if done.returncode != 0:
            module.fail_json(msg=complaint(done), **result)
    module.exit_json(changed=bool(written or result["stdout_lines"]), **result)


if __name__ == "__main__":
    main()

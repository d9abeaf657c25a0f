#!/usr/bin/python
"""Ansible module: have a set of small text files, whole or as marked blocks, in one round trip.

Covers parents (made 0755), content, mode and block markers; writes are atomic. Does not cover owners (always the
login user's, which is root), links or binaries: see versioned_binaries for those.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: host_files
short_description: Have a set of small text files in one round trip
description:
  - Writes each file whose content or mode differs, atomically, and makes missing parent folders.
  - One execution however many files there are; a copy or template task costs two executions and a transfer per file.
options:
  files:
    description: The files.
    type: list
    elements: dict
    required: true
    suboptions:
      path: {description: Absolute path., type: str, required: true}
      content: {description: The text., type: str, required: true}
      mode: {description: Permissions as an octal string., type: str, default: "0644"}
      block:
        description: Name of a block; the rest of the file stays as it is, and a mode is only given to a new file.
        type: str
author: [vmatrix]
"""

EXAMPLES = r"""
- name: Write two files and one block
  host_files:
    files:
      - {path: /etc/sysctl.d/90-kubernetes.conf, content: "net.ipv4.ip_forward = 1\n"}
      - {path: /etc/hosts, content: "10.0.0.2 cp1\n", block: cluster}
"""

RETURN = r"""
written: {description: Paths that differed., returned: always, type: list, elements: str}
"""

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


def main() -> None:
    """Run as an Ansible module."""
    module = AnsibleModule(
        argument_spec={"files": {"type": "list", "elements": "dict", "required": True, "options": FILE_SPEC}},
        supports_check_mode=True,
    )
    try:
        written, differences = apply(module.params["files"], dry=module.check_mode)
    except OSError as error:
        module.fail_json(msg=f"cannot write {error.filename}: {error.strerror}")
    module.exit_json(changed=bool(written), written=written, diff=differences)


if __name__ == "__main__":
    main()

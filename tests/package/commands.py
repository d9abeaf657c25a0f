"""Which commands need a project, and what each says where there is none.

Run as a program, it calls every command that needs one in the working directory, in one process, and prints JSON: exit
code and output by command. It imports nothing but the installed vmatrix.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest import mock

# The commands that need a project, with arguments that they accept.
NEED_A_PROJECT = (
    "run",
    "list",
    "list --origin",
    "explain x",
    "check x",
    "bisect x --good HEAD",
    "plan",
    "plan --write",
    "plan --check",
    "report",
    "schema",
    "history add runs",
    "history compact",
    "history show",
    "suspect last",
    "infra pin",
    "gitlab generate",
    "gitlab cell",
    "gitlab after",
    "gitlab reap",
    "gitlab checks",
)
# Those that work anywhere: on this host, on the infra cluster, or on what they are told.
WORK_ANYWHERE = (
    *("status", "reap", "login", "logs", "proxy", "kubeconfig", "kubectl"),
    *("init", "config", "docs", "doctor", "version"),
    *(
        "artifacts list",
        "artifacts newer",
        "artifacts build",
        "artifacts module",
        "artifacts prune",
        "artifacts gc",
        "artifacts serve",
    ),
    *("image build", "image list", "image prune"),
    *("conformance list", "conformance export"),
    *("infra up", "infra down", "infra status", "infra describe", "infra env"),
    *("gitlab note", "gitlab issues", "gitlab doctor"),
    *("operator crds", "operator execute", "operator explain", "operator image", "operator manifests", "operator log"),
    *("operator releases", "operator run", "operator deliver"),
    *("operator backup list", "operator backup show", "operator backup get"),
)
# Those of them that change nothing and end by themselves.
LOOK_ANYWHERE = (
    "config",
    "version",
    "artifacts list",
    "image list",
    "schema axes --stdout",
    "operator crds",
    "operator releases",
)
JOB = {"CI_JOB_ID": "1", "CI_PIPELINE_SOURCE": "push"}


@dataclass(frozen=True)
class Said:
    """What one call of a command ended with."""

    code: int
    out: str
    err: str


def call(words: str) -> Said:
    """Call the command's entry point in this process, which it must not leave: a run of cells would begin."""
    from harness.cli import main

    out, err, code = io.StringIO(), io.StringIO(), 0
    sys.argv = ["vmatrix", *words.split()]
    begun = mock.patch("os.execv", side_effect=AssertionError("a run of cells would begin"))
    with begun, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
    return Said(code, out.getvalue(), err.getvalue())


def complaint(said: Said) -> str:
    """Return what is wrong with what a command said where there is no project, "" when nothing is."""
    if said.code != 2:
        return f"exit code {said.code}"
    if said.err.count("error (user): ") != 1 or said.err.count("hint: ") != 1 or said.out:
        return "more or less than one message"
    message, _, hint = said.err.partition("hint: ")
    wanted = "this is not a project: " in message and "vmatrix init" in hint and "--project DIRECTORY" in hint
    return "" if wanted else "the message does not say what to do"


if __name__ == "__main__":
    os.environ |= {**JOB, "CI_PROJECT_DIR": str(Path.cwd()), "COLUMNS": "200"}
    found = {words: asdict(call(words)) for words in (*NEED_A_PROJECT, *LOOK_ANYWHERE)}
    sys.stdout.write(json.dumps(found))

"""`python -m ci.lint [--report FILE] [TOOL...]`: all linters, or the named ones; 1 when any finds something."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ci.lint.issue import write
from ci.lint.tools import Verdict, check, scratch_folder, tools

AT_ONCE = 2  # most of them use one core


def main() -> int:
    """Run the linters and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m ci.lint", description=__doc__)
    parser.add_argument("--report", type=Path, help="write a GitLab code quality report")
    parser.add_argument("--except", dest="without", action="append", default=[], metavar="TOOL", help="skip a linter")
    parser.add_argument("tools", nargs="*", metavar="TOOL")
    given = parser.parse_args()
    with scratch_folder() as scratch:
        known = tools(Path(scratch))
        strange = sorted({*given.tools, *given.without} - set(known))
        if strange:
            parser.error(f"unknown: {', '.join(strange)}; known: {', '.join(known)}")
        chosen = [known[name] for name in given.tools or known if name not in given.without]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            verdicts = list(map(show, pool.map(check, chosen)))
    if given.report is not None:
        write(given.report, (issue for verdict in verdicts for issue in verdict.issues))
    return 1 if any(issue.blocking for verdict in verdicts for issue in verdict.issues) else 0


def show(verdict: Verdict) -> Verdict:
    """Print what a linter said."""
    count = f"{len(verdict.issues)} findings" if verdict.issues else "ok"
    lines = [f"{verdict.tool}: {count} ({verdict.seconds:.1f} s)"]
    if verdict.issues:
        lines += [f"$ {verdict.call}", *(f"  {issue}" for issue in verdict.issues)]
        if any(issue.rule in ("failed", "unreadable") for issue in verdict.issues):
            lines.append(verdict.output)
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
    return verdict


if __name__ == "__main__":
    sys.exit(main())

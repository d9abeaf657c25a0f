"""summary.md of a run: what ran, what failed and whose fault it is, where to look."""

from __future__ import annotations

from pathlib import Path

from harness.report.results import CellResult, RunResult, Step, alike


def write(result: RunResult, path: Path) -> None:
    """Write the file."""
    path.write_text(render(result), encoding="utf-8")


def render(result: RunResult) -> str:
    """Return the summary as Markdown."""
    passed = sum(c.outcome == "passed" for c in result.cells)
    ended = "it was killed" if result.exit_code is None else f"exit code {result.exit_code}"
    lines = [
        f"# vmatrix run {result.run}",
        "",
        f"{passed} of {len(result.cells)} cells passed; started {result.started}; {ended}.",
        "",
        f"    {result.command}",
        "",
        "| cell | outcome | checks | not run | time |",
        "|---|---|---|---|---|",
        *(_row(cell) for cell in result.cells),
        "",
    ]
    for cell in result.cells:
        lines += _cell(cell)
    return "\n".join(lines).rstrip() + "\n"


def _row(cell: CellResult) -> str:
    passed = sum(c.outcome == "passed" for c in cell.checks)
    not_run = sum(c.outcome == "not-run" for c in cell.checks)
    ran = len(cell.checks) - not_run
    return f"| `{cell.id}` | {cell.outcome} | {passed}/{ran} | {not_run} | {cell.seconds:.0f} s |"


def _cell(cell: CellResult) -> list[str]:
    lines = [f"## {cell.id}", "", "| step | outcome | time |", "|---|---|---|"]
    lines += [f"| {_indented(step)} | {step.outcome} | {step.seconds:.1f} s |" for step in cell.steps]
    lines.append("")
    for step in cell.failures:
        lines += [f"**{step.name} failed** ({step.blame}): {step.summary}", ""]
        lines += [f"- hint: {step.hint}"] if step.hint else []
        lines += [f"- `{path}`" for path in step.paths]
        lines += ["", "```text", step.detail, "```"] if step.detail else []
        lines.append("")
    for check, others in alike(cell.failed_checks):
        lines += [
            f"**{check.suite}: {check.name}** failed ({check.blame})",
            "",
            "```text",
            check.detail.strip(),
            "```",
            "",
        ]
        lines += ["In the same way failed:", "", *(f"- {name}" for name in others), ""] if others else []
    not_run = [c for c in cell.checks if c.outcome == "not-run"]
    if not_run:
        lines += ["Not run:", "", *(f"- {c.suite}: {c.name}: {c.detail.strip()}" for c in not_run), ""]
    if cell.outcome != "passed":
        lines += [f"Logs: `{cell.directory}/`", ""]
    return lines


def _indented(step: Step) -> str:
    attempt = f" (attempt {step.attempt})" if step.attempt > 1 and len(step.path) == 1 else ""
    return "&nbsp;&nbsp;" * (len(step.path) - 1) + step.path[-1] + attempt

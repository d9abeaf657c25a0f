"""The list of all decisions, by their titles."""

from __future__ import annotations

from pathlib import Path


def page(folder: Path) -> str:
    """Return a page that links to every record in a folder."""
    titles = {file.name: title(file) for file in sorted(folder.glob("*.md"))}
    lines = [f"- [{said}]({name})" for name, said in sorted(titles.items(), key=lambda one: one[1].lower())]
    return "\n".join(
        (
            "# Decisions",
            "",
            "Why vmatrix is built as it is: each record has a context, a decision and what follows.",
            "",
            *lines,
        )
    )


def title(file: Path) -> str:
    """Return a page's first heading."""
    first = file.read_text(encoding="utf-8").partition("\n")[0]
    return first.lstrip("# ").strip()

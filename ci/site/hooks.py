"""What MkDocs does besides: pages from outside of docs/, links, and the parts of pages that are made from the code.

A page has a comment `<!-- made from the code: NAME -->` where such a part belongs. On a git host the page is read
without it, so its text says how to get the same there.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # MkDocs loads this file by its path

from mkdocs.structure.files import File  # noqa: E402

from ci.site import decisions, links, markdown, parts  # noqa: E402

MADE = re.compile(r"<!-- made from the code: (\w+) -->")
RENAMED = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
OUTSIDE = ("README.md", *RENAMED, "deploy/README.md", "deploy/*/README.md", "examples/*/README.md")
DECISIONS = "docs/decisions"


def places() -> dict[str, str]:
    """Return where each file is in the site, by its path in the repository."""
    inside = {str(file.relative_to(ROOT)): file for file in (ROOT / "docs").rglob("*") if file.is_file()}
    outside = [str(file.relative_to(ROOT)) for pattern in OUTSIDE for file in ROOT.glob(pattern)]
    found = {path: path.removeprefix("docs/") for path in inside}
    found |= {path: RENAMED.get(path, path) for path in outside}
    return {**found, DECISIONS: "decisions/README.md"}


def on_config(config: Any) -> Any:
    """Make anchors as git hosts do."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = markdown.anchor
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages from outside of docs/."""
    for path, place in places().items():
        if path == DECISIONS:
            files.append(File.generated(config, place, content=decisions.page(ROOT / DECISIONS)))
        elif not path.startswith("docs/"):
            files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(text: str, page: Any, config: Any, files: Any) -> str:
    """Return a page as the site needs it."""
    known = places()
    path = {place: path for path, place in known.items()}[page.file.src_uri]
    if path != DECISIONS:
        text = links.for_site(text, path, known, source())
    made = MADE.sub(lambda found: parts.part(found[1]), text)
    return markdown.for_python_markdown(made)


def source() -> str:
    """Return the address of the repository's files; in a pipeline GitLab says it."""
    project, commit = os.environ.get("CI_PROJECT_URL", ""), os.environ.get("CI_COMMIT_SHA", "")
    return f"{project}/-/blob/{commit}" if project and commit else ""

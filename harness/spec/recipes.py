"""Whether the recipes that images.yml names exist (`source.recipe`), before anybody asks for such an image."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.paths import packaged_dir
from harness.spec.declared import EACH, find, texts
from harness.spec.lines import Finding
from harness.spec.shape import unknown

RECIPES = Path("vm-templates", "images")
RECIPE = "recipe.yml"


def check(content: Any, project: Path) -> Iterator[Finding]:
    """Find recipes that neither the project nor the package has."""
    known = [file.parent.name for root in (project, packaged_dir()) for file in (root / RECIPES).glob(f"*/{RECIPE}")]
    for at, source in find(content, "images", EACH, "source"):
        for inner, name in texts(source, "recipe"):
            if name not in known:
                yield (*at, *inner), unknown(f"recipe (a folder of {RECIPES} with {RECIPE})", name, sorted(set(known)))

"""Whether a job's artifacts fit into what GitLab takes: the files that jobs.yml names, as they are now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.gitlab.child import common
from harness.infra.findings import Finding

USUAL_MIB = 100  # https://docs.gitlab.com/administration/settings/continuous_integration/#set-maximum-artifacts-size


def findings(checkout: Path, *, limit_mib: int = USUAL_MIB, prefix: str = "") -> Iterator[Finding]:
    """Yield advice where the files, not packed yet, are larger than the limit, which a job cannot ask for.

    Args:
        prefix: of the names in jobs.yml.
    """
    patterns = common(prefix)[f".{prefix}cell"]["artifacts"]["paths"]
    found = {file for pattern in patterns for one in checkout.glob(pattern.rstrip("/")) for file in _files(one)}
    size = sum(file.stat().st_size for file in found) / 2**20
    if size > limit_mib:
        what = f"the job's artifacts are {size:.0f} MiB before they are packed"
        why = f"GitLab takes {limit_mib} MiB, if nobody changed its maximum artifacts size"
        yield Finding(
            what, why, "raise it (Admin > Settings > CI/CD, or the group's), or pass --artifacts-limit", False
        )


def _files(path: Path) -> Iterator[Path]:
    return (one for one in (path.rglob("*") if path.is_dir() else [path]) if one.is_file() and not one.is_symlink())

"""A few Debian packages with what they depend on, unpacked into a tar archive: the lower part of some images.

Packages are unpacked, not installed: no maintainer script runs, so nothing here depends on the host or on the clock.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from harness import proc
from harness.errors import BadInput

SECONDS = 60.0  # expected, for the progress display


def unpack(packages: Sequence[str], target: Path, log: Path, suite: str, seconds: float) -> None:
    """Write a tar archive of a suite's packages and their dependencies.

    Args:
        seconds: how long it may take.

    Raises:
        BadInput: mmdebstrap is not installed.  InfraError: it failed.
    """
    if shutil.which("mmdebstrap") is None:
        raise BadInput(
            "building an image with Debian packages needs mmdebstrap", hint="apt-get install --yes mmdebstrap"
        )
    argv = ["mmdebstrap", "--variant=extract", f"--include={','.join(packages)}", suite, str(target)]
    hint = "check that this machine can install Debian packages: apt-get update"
    with proc.failing_as_infra(f"Debian packages could not be downloaded ({', '.join(packages)})", hint=hint):
        proc.run(argv, timeout=seconds, log=log, env={"SOURCE_DATE_EPOCH": "0", "TMPDIR": str(target.parent)})

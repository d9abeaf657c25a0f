"""What belongs to a Kubernetes release that the catalogue does not have yet: read from its own sources.

kubeadm's constants name etcd, CoreDNS and pause; the e2e tests' list names the images that conformance runs.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

from harness import proc
from harness.artifacts import toolchain
from harness.artifacts.newer import minor
from harness.artifacts.recipe import LIMITS, ArtifactLimits
from harness.errors import BadInput

MODULE = "k8s.io/kubernetes"
CONSTANTS = Path("cmd/kubeadm/app/constants/constants.go")
IMAGES = Path("test/utils/image/manifest.go")
SUPPORTED_MONTHS = 14  # https://kubernetes.io/releases/patch-releases/: a year, and two months of maintenance
LAST_DAY = 28  # support ends on the 28th of a month, same page


@dataclass(frozen=True)
class ReleaseParts:
    """Versions without `v`, but for the images' tags; when its minor was released, and until when it is supported."""

    version: str
    etcd: str
    etcd_image: str
    coredns: str
    pause: str
    agnhost: str
    busybox: str
    released: date
    supported_until: date


def read(version: str, limits: ArtifactLimits = LIMITS) -> ReleaseParts:
    """Download a release's sources, and return what belongs to it.

    Raises:
        BadInput: the module proxy does not have it, or its sources do not say it where they used to.
    """
    go = toolchain.find("1.21", limits)
    try:
        sources = Path(go.download(f"{MODULE}@v{version}")["Dir"])
        first = go.download(f"{MODULE}@v{minor(version)}.0")["Info"]
    except proc.CommandFailed as error:
        raise BadInput(
            f"the Go module proxy has no {MODULE} v{version}", hint="GOPROXY names the proxy", detail=error.detail
        ) from error
    released = datetime.fromisoformat(json.loads(Path(first).read_text(encoding="utf-8"))["Time"]).date()
    constants, images = sources / CONSTANTS, sources / IMAGES
    etcd = _found(constants, r'DefaultEtcdVersion = "(\S+)"')
    return ReleaseParts(
        version=version,
        etcd=etcd.partition("-")[0],
        etcd_image=etcd,
        coredns=_found(constants, r'CoreDNSVersion = "v(\S+)"'),
        pause=_found(constants, r'PauseVersion = "(\S+)"'),
        agnhost=_found(images, r'configs\[Agnhost\] = Config\{.*, "agnhost", "(\S+)"\}'),
        busybox=_found(images, r'configs\[BusyBox\] = Config\{.*, "busybox", "(\S+)"\}'),
        released=released,
        supported_until=support_end(released),
    )


def support_end(released: date) -> date:
    """Return the day on which the support of a minor ends that was released on a day."""
    months = released.year * 12 + released.month - 1 + SUPPORTED_MONTHS
    return date(months // 12, months % 12 + 1, LAST_DAY)


def _found(file: Path, pattern: str) -> str:
    found = re.search(pattern, file.read_text(encoding="utf-8")) if file.exists() else None
    if found is None:
        raise BadInput(f"{file} does not say {pattern}", hint="look where this release says it, and write it by hand")
    return found.group(1)

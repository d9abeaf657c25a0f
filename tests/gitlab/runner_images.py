"""Images of GitLab Runner and its helper for an embedded infra cluster: the programs, on Debian, as vmatrix's own are.

Upstream's images are Alpine's; these have what the runner needs of the helper's: bash, git, and the command that the
helper's container runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import paths
from harness.artifacts.catalogue import Image
from harness.artifacts.images import Assembly
from harness.artifacts.product.images import Upload
from harness.artifacts.recipe import Ref
from harness.artifacts.registry import publish_images
from harness.artifacts.store import Store
from harness.proc import run
from tests.gitlab.real_runner import program

RUNNER = "gitlab/gitlab-runner"
HELPER = "gitlab-org/gitlab-runner/gitlab-runner-helper"  # where the runner looks for it, in whatever registry
COMMON = ["base-files", "base-passwd", "ca-certificates", "coreutils", "dash", "grep", "sed"]
BUILD = "gitlab-runner-build"
# All that jobs write has to be open to the user of the job's own image.
BUILD_SCRIPT = "#!/bin/bash\numask 0000\nexec bash\n"
VERSION_SECONDS = 30.0
IMAGES: Mapping[str, Image] = {
    RUNNER: Image(
        tags={},
        files={"/usr/bin/gitlab-runner": "gitlab-runner/gitlab-runner"},
        debian=COMMON,
        entrypoint=["/usr/bin/gitlab-runner"],
    ),
    HELPER: Image(
        tags={},
        files={
            "/usr/bin/gitlab-runner-helper": "gitlab-runner/gitlab-runner-helper",
            f"/usr/bin/{BUILD}": f"{BUILD}/{BUILD}",
        },
        debian=[*COMMON, "bash", "findutils", "git", "hostname", "tar"],
        command=["sh"],
    ),
}


def version() -> str:
    """Return the runner's own word for its version: 17.5.5."""
    said = run([program(), "--version"], timeout=VERSION_SECONDS).stdout
    return next(line.split()[1] for line in said.splitlines() if line.startswith("Version:"))


def publish(registry: str, store: Store) -> str:
    """Have both images in the registry of this host's infra clusters; return the reference of the runner's."""
    tag = f"v{version()}"
    names = {RUNNER: f"{RUNNER}:{tag}", HELPER: f"{HELPER}:x86_64-{tag}"}
    with TemporaryDirectory(prefix="vmatrix-") as folder:
        script = Path(folder) / "script" / BUILD
        script.parent.mkdir()
        script.write_text(BUILD_SCRIPT, encoding="utf-8")
        inputs = {Ref("gitlab-runner", tag): ("", program().parent), Ref(BUILD, tag): ("", script.parent)}
        uploads = []
        for repository, image in IMAGES.items():
            target = Path(folder) / repository.replace("/", "-")
            target.mkdir()
            Assembly(Ref(repository, tag), image, inputs).make(target, Path(folder) / "log")
            uploads.append(Upload(names[repository], target))
        root = paths.cache_dir() / "registry"
        publish_images((), registry, root=root, store=store, uploads=uploads)
    return f"{registry}/{names[RUNNER]}"

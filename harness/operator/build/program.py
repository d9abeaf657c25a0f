"""The programs of a build's pod: `fetch`, `daemon` and `build`, and what they say at their end: how far, and why.

What is pushed gets its tag last: there is no tag without an image that is whole, signed and described.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from pydantic import TypeAdapter

from harness.errors import BadInput, VmatrixError
from harness.kube.objects import stamp
from harness.operator.build import attestation, buildkit, dockerfile, job, oci, remote, signature
from harness.operator.build.job import BuildInputs, BuildReport
from harness.operator.execute.objects import REPORT, USER
from harness.until import Deadline, grown, persist

FETCHED_FILE, FETCHED_FORM = "fetched.json", TypeAdapter(remote.Fetched)
SHORTEST_PAUSE, LONGEST_PAUSE, MOST_ATTEMPTS = 1.0, 20.0, 100  # while a registry does not answer
MOST_ENDS = 3  # of a builder that is started anew each time: it may always lack memory
CACHE_TAG = "buildcache"
FRONTENDS = "BUILDKIT_SYNTAX"  # a build argument that would name a program to read the Dockerfile with
UNEXPECTED = "BuilderBug"
T = TypeVar("T")


@dataclass(frozen=True)
class Places:
    """Where a pod has everything; tests have it elsewhere."""

    inputs: Path = Path(job.INPUTS)
    workspace: Path = Path(job.WORKSPACE)
    secrets: Path = Path(job.SECRETS)
    tools: Path = Path(job.TOOLS_FOLDER)
    sockets: Path = Path(job.SOCKETS)
    state: Path = Path(job.STATE)
    report: Path = Path(REPORT)

    def read_inputs(self) -> BuildInputs:
        """Read what the pod is told."""
        return job.INPUTS_FORM.validate_json((self.inputs / job.INPUTS_FILE).read_bytes())

    def secret(self, name: str) -> dict[str, bytes]:
        """Return the keys of a Secret; none where it is not mounted."""
        folder = self.secrets / name
        paths = sorted(folder.iterdir()) if folder.is_dir() else []
        return {path.name: path.read_bytes() for path in paths if path.is_file() and not path.name.startswith("..")}

    def fetched(self) -> remote.Fetched:
        """Return what `fetch` has left."""
        return FETCHED_FORM.validate_json((self.workspace / FETCHED_FILE).read_bytes())


def fetch(places: Places) -> BuildReport:
    """Write the files of the revision. Raises VmatrixError."""
    inputs = places.read_inputs()
    fetching = remote.Fetching(inputs.source, places.secret(job.GIT), inputs.seconds)
    buildkit.show(f"fetching {inputs.revision} of {inputs.source.git}")
    fetched = fetching.into(places.workspace, inputs.revision)
    (places.workspace / FETCHED_FILE).write_bytes(FETCHED_FORM.dump_json(fetched))
    return BuildReport("succeeded", inputs.revision, "Fetched", committed=_moment(fetched.committed))


def _moment(seconds: int) -> str:
    return stamp(datetime.fromtimestamp(seconds, UTC))


@dataclass
class ImageBuild:
    """A revision on its way from files to a tag. `report`: how far it is."""

    places: Places
    inputs: BuildInputs
    fetched: remote.Fetched
    report: BuildReport

    def run(self) -> None:
        """Do all of it. Raises VmatrixError."""
        deadline = Deadline.after(self.inputs.seconds)
        key = self._key()  # a bad one is found before anything is built
        config = self.places.secret(job.PUSH).get(oci.DOCKER_CONFIG)
        login = oci.login_of(config, oci.split(self.inputs.build.image)[0])
        with TemporaryDirectory(prefix="build-") as temporary:
            folder = Path(temporary)
            build = self._prepared(folder)
            buildkit.wait_for_daemon(self.places.sockets, buildkit.DAEMON_SECONDS * max(1.0, self.stretch))
            logged_in = _docker_config(folder, config)
            digest, bases = _patiently(lambda: build.run(folder, deadline.remaining(), logged_in), deadline)
        self.report = replace(self.report, stage="Built")
        registry, name, _ = oci.split(self.inputs.build.image)
        insecure = registry in self.inputs.insecure_registries
        repository = oci.Repository(registry, name, deadline, insecure, login)
        _patiently(lambda: self._finish(repository, digest, bases, key), deadline)
        self.report = replace(self.report, outcome="succeeded", stage="Pushed", image=f"{repository}@{digest}")
        buildkit.show(f"pushed {repository}@{digest}, tag {self.inputs.tag}")

    @property
    def stretch(self) -> float:
        """Return the factor for waits."""
        return self.inputs.seconds / self.inputs.build.timeout_seconds

    def _key(self) -> signature.PrivateKey | None:
        secret = self.places.secret(job.SIGNING)
        if not secret and self.inputs.build.signing_secret_ref is None:
            return None
        if signature.KEY not in secret:
            raise signature.BadKey(f"the Secret has no {signature.KEY}", hint="see build.signingSecretRef")
        return signature.private_key(secret[signature.KEY], secret.get(signature.PASSWORD, b"").strip())

    def _prepared(self, folder: Path) -> buildkit.Build:
        """Check the Dockerfile; return the build."""
        asked, root = self.inputs.build, self.fetched.folder
        context = remote.inside(root, asked.context)
        path = root / asked.dockerfile
        if not path.is_file() or not path.resolve().is_relative_to(root):
            hint = "correct build.dockerfile; it is relative to source.subPath"
            message = f"the revision has no file {asked.dockerfile}"
            raise dockerfile.DockerfileRejected(dockerfile.MISSING, message, hint=hint)
        if FRONTENDS in asked.args:
            raise dockerfile.DockerfileRejected(
                dockerfile.NOT_ALLOWED, f"build.args has {FRONTENDS}", hint="remove it: the builder has its own"
            )
        outline = dockerfile.outline(
            path.read_bytes(),
            asked.dockerfile,
            registries=self.inputs.registries,
            args=asked.args,
            target=asked.target,
        )
        place = folder / "dockerfile"
        place.mkdir()
        (place / path.name).write_text(outline.text, encoding="utf-8")
        ignored = path.with_name(f"{path.name}.dockerignore")
        if ignored.is_file() and ignored.resolve().is_relative_to(root):
            shutil.copyfile(ignored, place / ignored.name)
        options = {f"build-arg:{name}": value for name, value in asked.args.items()}
        options |= {"target": asked.target} if asked.target else {}
        options |= {"platform": ",".join(asked.platforms)} if asked.platforms else {}
        return buildkit.Build(
            self.places.tools,
            self.places.sockets,
            context,
            place / path.name,
            asked.dockerfile,
            asked.image,
            options,
            f"{asked.image}:{CACHE_TAG}" if asked.cache == "Registry" else "",
            self.inputs.registries,
            self.fetched.committed,
        )

    def _finish(
        self, repository: oci.Repository, digest: str, bases: tuple[str, ...], key: signature.PrivateKey | None
    ) -> None:
        """Sign the image, say what it is made of, and give it its tag. Everything here can be done twice."""
        raw = repository.content(digest)
        if raw is None:
            raise oci.NotInRegistry(f"{repository} has no {digest} after the push", hint="see the registry's log")
        manifest, made = json.loads(raw), _moment(self.fetched.committed)
        image = f"{repository}@{digest}"
        if key is not None:
            signature.sign(repository, digest, key)
        kind = str(manifest.get("mediaType", oci.MANIFEST))
        subject = {"mediaType": kind, "digest": digest, "size": len(raw)}
        asked = job.INPUTS_FORM.dump_python(self.inputs, mode="json", by_alias=True, exclude_none=True)
        parameters = {name: asked[name] for name in ("source", "build")}
        contents = attestation.contents_of(repository, manifest)
        documents = {
            attestation.STATEMENT: attestation.provenance(
                image, asked=parameters, revision=self.inputs.revision, bases=bases, made=made
            ),
            attestation.SBOM: attestation.sbom(contents, image, made),
        }
        for media_type, content in documents.items():
            repository.attach(subject, media_type, media_type, oci.document(content), made)
        repository.put_content(self.inputs.tag, raw, kind)


def _docker_config(folder: Path, config: bytes | None) -> Path:
    """Write the log-in as buildctl reads it; return its folder."""
    place = folder / "docker"
    place.mkdir()
    (place / "config.json").touch(mode=0o600)
    (place / "config.json").write_bytes(config or b"{}")
    return place


def _patiently(attempt: Callable[[], T], deadline: Deadline) -> T:
    """Try until something other than a registry that does not answer is in the way, or time is up."""

    ended = 0

    def pause(error: BaseException, number: int) -> float | None:
        nonlocal ended
        ended += isinstance(error, buildkit.BuildFailed) and error.reason == buildkit.ENDED
        if not isinstance(error, VmatrixError) or not error.passing or ended > MOST_ENDS:
            return None
        buildkit.show(f"{error.summary}; the next attempt follows")
        return grown(SHORTEST_PAUSE, number, LONGEST_PAUSE)

    return persist(attempt, deadline=deadline, most=MOST_ATTEMPTS, pause=pause)


def build(places: Places) -> BuildReport:
    """Build, push, sign and describe the image; return the report, whatever happened."""
    inputs = places.read_inputs()
    fetched = places.fetched()
    begun = BuildReport("failed", inputs.revision, "Fetched", committed=_moment(fetched.committed))
    work = ImageBuild(places, inputs, fetched, begun)
    try:
        work.run()
    except (VmatrixError, OSError) as error:
        return failed(work.report, error)
    return work.report


def failed(report: BuildReport, error: Exception) -> BuildReport:
    """Return the report of a build that failed."""
    line = getattr(error, "line", "")
    if isinstance(error, dockerfile.DockerfileRejected):
        line = f"line {error.line}: {error.text}".rstrip(": ") if error.line else ""
    full = isinstance(error, OSError) and error.errno == errno.ENOSPC
    summary = error.summary if isinstance(error, VmatrixError) else f"{type(error).__name__}: {error}"
    hint = error.hint if isinstance(error, VmatrixError) else ""
    return replace(
        report,
        outcome="failed",
        reason="DiskFull" if full else str(getattr(error, "reason", UNEXPECTED)),
        message=f"{summary} ({hint})" if hint else summary,
        line=line,
        transient=full or (isinstance(error, VmatrixError) and error.passing),
    )


def main(name: str, places: Places) -> int:
    """Run one of the programs; return the exit status."""
    programs: Mapping[str, Callable[[Places], BuildReport]] = {"fetch": fetch, "build": build}
    if name == "daemon":
        buildkit.run_daemon(places.tools, places.sockets, places.state, places.inputs / job.DAEMON_FILE, root=USER)
    if name not in programs:
        raise BadInput(f"there is no program {name}", hint=f"there are: daemon, {', '.join(programs)}")
    try:
        report = programs[name](places)
    except Exception as error:  # noqa: BLE001 - whatever it is: it must be in what is said at the end
        if not isinstance(error, VmatrixError):
            traceback.print_exc()
        report = failed(BuildReport("failed", places.read_inputs().revision), error)
    if report.outcome == "failed":
        sys.stderr.write(f"{report.reason}: {report.message}\n{report.line}\n")
    places.report.write_text(report.to_text(), encoding="utf-8")  # a pod's is mounted: nothing can take its place
    return 0 if report.outcome == "succeeded" else 1


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main(sys.argv[1], Places()))

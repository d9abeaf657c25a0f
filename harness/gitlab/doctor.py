"""GitLab doctor: whether runner, token, tags, time-outs, image, artifacts and clock of a job fit.

Does not ask anybody; token.py judges the job's token, clock.py asks GitLab for the time.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.gitlab.access import SERVER, TOKEN
from harness.gitlab.child import common
from harness.gitlab.job import NUMBER
from harness.gitlab.limits import minutes
from harness.history.origin import time_of
from harness.infra.findings import Finding, raise_if_any

GITLAB = (18, 2)  # `trigger: strategy: mirror`: https://docs.gitlab.com/ci/yaml/#triggerstrategy
RUNNER = (17, 5)  # ends scripts that print nothing when they are cancelled: gitlab-org/gitlab issue 456252
SCRIPT, AFTER = "RUNNER_SCRIPT_TIMEOUT", "RUNNER_AFTER_SCRIPT_TIMEOUT"
POD = ("POD_NAME", "POD_UID", "POD_NAMESPACE")
RELEASE = re.compile(r"v(\d+\.\d+\.\d+)")


def job_findings(environment: Mapping[str, str], *, tag: str, version: str) -> Iterator[Finding]:
    """Yield what does not fit.

    Args:
        tag: of the runners for cells.
        version: of this vmatrix.
    """
    yield from _old(environment, "GitLab", "CI_SERVER_VERSION", GITLAB, "trigger jobs cannot mirror a child pipeline")
    yield from _old(environment, "GitLab Runner", "CI_RUNNER_VERSION", RUNNER, "a cancelled job may never be told")
    yield from _tags(environment, tag)
    yield from time_findings(environment)
    yield from _image(environment, version)
    yield from _pod(environment)


def refuse_other_release(environment: Mapping[str, str], *, version: str) -> None:
    """Refuse to plan or run anything with the vmatrix of an image that is of another release than the pipeline.

    Raises:
        BadInput: as `findings` says it.
    """
    raise_if_any(list(_image(environment, version)))


def _old(environment: Mapping[str, str], who: str, name: str, least: tuple[int, int], why: str) -> Iterator[Finding]:
    said = environment.get(name, "")
    found = re.match(r"v?([0-9]{1,4})\.([0-9]{1,4})", said)
    wanted = ".".join(map(str, least))
    if found is None:
        yield Finding(
            f"{name} is {said!r}", f"the version of {who} is not known", f"use {who} {wanted} or later", False
        )
    elif (int(found[1]), int(found[2])) < least:
        yield Finding(f"this is {who} {said}", why, f"update {who} to {wanted} or later")


def _tags(environment: Mapping[str, str], tag: str) -> Iterator[Finding]:
    said = environment.get("CI_RUNNER_TAGS", "")
    try:
        listed = json.loads(said or "[]")
    except (ValueError, RecursionError):
        listed = None
    tags = [str(one) for one in (listed if isinstance(listed, list) else said.split(",")) if str(one).strip()]
    tags = [one.strip() for one in tags]
    if tag not in tags:
        has = f"has the tags {', '.join(tags)}" if tags else "has no tags"
        remedy = f"add the tag {tag} to the runner for cells (Settings > CI/CD > Runners), or set the input runner_tag"
        yield Finding(
            f"this job's runner {has}", f"it gets no job with a cell: they wait for one with the tag {tag}", remedy
        )


def time_findings(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Yield that the job may end before its after_script has, which is the runner's maximum job timeout."""
    given = {name: environment[name] for name in (SCRIPT, AFTER) if environment.get(name)}
    if len(given) < 2 or not NUMBER.fullmatch(environment.get("CI_JOB_TIMEOUT", "")):
        return
    try:
        inner = sum(map(minutes, given.values()))
    except ValueError as wrong:
        yield Finding(str(wrong), f"{SCRIPT} and {AFTER} cannot be judged", "write them in whole minutes, such as 90m")
        return
    job = int(environment["CI_JOB_TIMEOUT"]) / 60
    if job <= inner:
        what = f"the job may take {job:g} minutes, its script and after_script {inner}"
        why = "a job that exceeds its timeout gets no after_script, and its cell is left"
        remedy = (
            f"set the runner's maximum job timeout (Settings > CI/CD > Runners) to more than {inner} minutes, or none"
        )
        yield Finding(what, why, remedy)


def _image(environment: Mapping[str, str], version: str) -> Iterator[Finding]:
    wanted = RELEASE.fullmatch(environment.get("MATRIX_REF", ""))
    if environment.get("VMATRIX_REVISION") and wanted and wanted[1] != version:
        what = f"the image has vmatrix {version}, the pipeline is of {wanted[1]}"
        remedy = f"set the input image to vmatrix's image with the tag v{wanted[1]}, or vmatrix_ref to v{version}"
        yield Finding(what, "jobs run the vmatrix of their image, whatever vmatrix_ref says", remedy)


def _pod(environment: Mapping[str, str]) -> Iterator[Finding]:
    missing = [name for name in POD if not environment.get(name)]
    if environment.get("KUBERNETES_SERVICE_HOST") and environment.get("MATRIX_NAMESPACE") and missing:
        what = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set in the job's pod"
        remedy = "configure the runner as deploy/runner does (pod_spec, FF_USE_ADVANCED_POD_SPEC_CONFIGURATION)"
        yield Finding(what, "machines stay when the pod is lost, until they expire", remedy, False)


SECONDS = 20.0  # for one answer of GitLab
MOST_SECONDS = 30.0  # a Date header has whole seconds, and an answer takes its time


def clock_findings(environment: Mapping[str, str], *, now: float | None = None) -> Iterator[Finding]:
    """Yield what does not fit; nothing where no GitLab is known."""
    api = environment.get("CI_API_V4_URL", "")
    if not api.startswith(("https://", "http://")):
        return
    try:
        theirs = time_of(f"{api}/version", SECONDS)
    except (OSError, ValueError) as error:
        remedy = "let the runner's jobs reach GitLab: proxy, network policy, DNS"
        yield Finding(f"{api} does not answer: {error}", "jobs keep their history and notes there", remedy, False)
        return
    apart = (time.time() if now is None else now) - theirs
    if abs(apart) > MOST_SECONDS:
        what = f"this host's clock is {abs(apart):.0f} s {'ahead of' if apart > 0 else 'behind'} GitLab's"
        why = "the infra cluster may find the job's token not valid yet, or expired"
        yield Finding(what, why, "synchronise the clock of the runner's host: timedatectl set-ntp true")


AUDIENCE = "vmatrix"  # of deploy/authentication and harness/gitlab/jobs.yml
WISH = f"`id_tokens: {{{TOKEN}: {{aud: {AUDIENCE}}}}}`"


def token_findings(environment: Mapping[str, str], *, now: float | None = None) -> Iterator[Finding]:
    """Yield what does not fit; nothing where the job logs in otherwise."""
    if not environment.get(SERVER):
        return
    claims = _claims(environment.get(TOKEN, ""))
    if claims is None:
        yield Finding(
            f"{TOKEN} is not set, or is not a token", "the infra cluster refuses the job", f"add {WISH} to the job"
        )
        return
    heard = claims.get("aud")
    if AUDIENCE not in (heard if isinstance(heard, list) else [heard]):
        what = f"{TOKEN} is for the audience {heard!r}"
        yield Finding(
            what, "the infra cluster trusts tokens for vmatrix alone", f"change the job's id_tokens to {WISH}"
        )
    url = environment.get("CI_SERVER_URL", "")
    if url and claims.get("iss") != url:
        what = f"{TOKEN} was issued by {claims.get('iss')!r}, not by {url}"
        remedy = "use GitLab's external URL as the issuer in deploy/authentication"
        yield Finding(what, "the infra cluster trusts one issuer", remedy, False)
    left = _number(claims.get("exp")) - (time.time() if now is None else now)
    if left <= 0:
        remedy = "give the job a longer `timeout`: the token lives as long"
        yield Finding(f"{TOKEN} expired {-left:.0f} s ago", "the infra cluster refuses the job", remedy)


def _claims(token: str) -> dict[str, Any] | None:
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


USUAL_MIB = 100  # https://docs.gitlab.com/administration/settings/continuous_integration/#set-maximum-artifacts-size


def upload_findings(checkout: Path, *, limit_mib: int = USUAL_MIB, prefix: str = "") -> Iterator[Finding]:
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

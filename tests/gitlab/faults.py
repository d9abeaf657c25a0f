"""What the real runner's jobs showed when something around them broke: kept beside the tests, and a table in the docs.

`python -m tests.gitlab.faults` writes the table into the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.gitlab.server.model import PipelineJob

KEPT = Path(__file__).with_name("faults.json")
PAGE = Path(__file__).parents[2] / "docs" / "gitlab-faults.md"
BEGIN, END = "<!-- faults -->", "<!-- end of faults -->"
COLUMNS = ("fault", "the job ends as (exit code)", "its trace says", "tries", "left", "seen")
# Every fault that is looked at: its name, and what happens.
FAULTS: Mapping[str, str] = {
    "cancelled": "the job is cancelled",
    "replaced": "a newer commit of the merge request",
    "script-limit": "RUNNER_SCRIPT_TIMEOUT is over",
    "job-limit": "the job's `timeout` is over",
    "pod-deleted": "the job's pod is deleted at once",
    "image-missing": "no registry has the job's image",
    "artifacts-refused": "the artifacts are larger than GitLab takes",
    "server-away": "GitLab does not answer for 60 s",
    "evicted": "the job's pod is evicted",
    "out-of-memory": "the script needs more memory than its pod may have",
    "node-away": "the node of all pods stands still for 60 s",
    "runner-killed": "the runner is killed and starts again",
    "trace-limit": "the trace is longer than GitLab takes",
    "commit-missing": "the repository does not have the commit",
    "audience": "the job's ID token is for another audience",
    "cell-provision": "the job is cancelled while its cell is provisioned",
    "cell-deploy": "the job is cancelled while its cell is deployed",
    "cell-checks": "the job is cancelled while its cell is checked",
    "cell-teardown": "the job is cancelled while its cell is torn down",
    "cell-evicted": "the pod is evicted while its cell is deployed",
    "cell-pod-deleted": "the pod is deleted while its cell is deployed",
    "token-expired": "the ID token expires while its cell is deployed",
}


@dataclass(frozen=True)
class FaultNotes:
    """Takes down what came of faults; `keeping`: among the kept ones and in the page, too."""

    keeping: bool

    def __call__(self, name: str, job: PipelineJob, says: str, left: str = "nothing") -> None:
        """Take down a fault: the end of a job that says something in its trace, and what is left then."""
        assert name in FAULTS, name
        assert says in job.said, job.said[-4000:]
        tries = max(one.tries for one in job.pipeline.jobs if one.name == job.name)
        found = {
            "state": str(job.state),
            "reason": job.failure_reason,
            "code": job.exit_code,
            "tries": tries,
            "says": says,
            "left": left,
            "seen": f"{datetime.now(UTC):%Y-%m-%d}",
        }
        if self.keeping:
            KEPT.write_text(json.dumps({**read(), name: found}, indent=2, sort_keys=True) + "\n", encoding="utf-8")
            write()


def read() -> dict[str, dict[str, object]]:
    """Return what is kept, by fault."""
    found: dict[str, dict[str, object]] = json.loads(KEPT.read_text(encoding="utf-8"))
    return found


def written(results: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield f"|{'---|' * len(COLUMNS)}"
    for name, what in FAULTS.items():
        found = results.get(name)
        if found is None:
            yield f"| {what} | not run yet |{' |' * (len(COLUMNS) - 2)}"
            continue
        end = f"`{found['reason']}`" if found["reason"] else found["state"]
        code = "" if found["code"] is None else f" ({found['code']})"
        yield f"| {what} | {end}{code} | `{found['says']}` | {found['tries']} | {found['left']} | {found['seen']} |"


def page(text: str) -> str:
    """Return the page with the table as it is now."""
    head, _, rest = text.partition(BEGIN)
    tail = rest.partition(END)[2]
    return "\n".join([f"{head}{BEGIN}", *written(read()), f"{END}{tail}"])


def write() -> None:
    """Write the table into the page."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write()

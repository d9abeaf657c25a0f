"""A run of conformance specs as CNCF's programme takes it: four files, and a refusal of what reviewers would refuse.

The files, as https://github.com/cncf/k8s-conformance/blob/master/instructions.md has them: README.md, PRODUCT.yaml,
e2e.log, junit_01.xml. What its reviewers look for is looked for here first (reviewing.md there).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from harness import yaml_text
from harness.errors import BadInput
from harness.events import recorded
from harness.files import read_text
from harness.rundir import RunDir
from harness.spec.suites import CERTIFICATION
from harness.validate.conformance.ginkgo import LOG, REPORT
from harness.validate.conformance.upstream import load_upstream
from harness.validate.conformance.verdicts import SpecOutcome, read_verdicts
from harness.validate.expected import minor_of

REQUIRED = ("vendor", "name", "version", "website_url", "documentation_url", "type", "description")
OPTIONAL = ("repo_url", "product_logo_url", "contact_email_address")
TYPES = ("distribution", "hosted platform", "installer")
PRODUCT_FILE, E2E_LOG, README = "PRODUCT.yaml", "e2e.log", "README.md"
SUCCESS = re.compile(r"SUCCESS! -- \d+ Passed \| 0 Failed \| 0 Pending \| \d+ Skipped")
MOST_NAMES = 5
TEXT = """\
# {name} {version}: conformance of Kubernetes {kubernetes}

The results in this directory are those of one cell of vmatrix: `{cell}` of run `{run}`. {description}

To reproduce them:

```sh
vmatrix run {cell} --tier conformance
vmatrix conformance export RUN {cell} --product PRODUCT.yaml --output DIR
```

vmatrix deployed the cluster with these values: {values}. It then ran `e2e.test` of Kubernetes {kubernetes} through
`ginkgo`, with the label filter `Conformance` and nothing left out: {specs} specs, side by side, and after them one by
one those that are marked `[Serial]`.
"""


@dataclass(frozen=True)
class Submission:
    """What a run says of a cell: the run's id, the cell, its values, and the files of its suite."""

    run: str
    cell: str
    values: Mapping[str, str]
    checks: Path

    @staticmethod
    def of(run: RunDir, cell: str, checks: Path) -> Submission:
        """Return what a run has of a cell.

        Raises:
            BadInput: the run does not know the cell, or the suite did not run in it.
        """
        events = recorded(run.path).events if run.results.is_file() else ()
        known = [event["values"] for event in events if event.get("values")]
        values = next((every[cell] for every in reversed(known) if cell in every), None)
        if values is None:
            raise BadInput(f"{run.path} has no cell {cell}", hint="`vmatrix list --tier conformance` lists cells")
        for name in (REPORT, LOG):
            if not (checks / name).is_file():
                raise BadInput(
                    f"the suite {CERTIFICATION} did not run in {cell}: {checks / name} does not exist",
                    hint=f"vmatrix run {cell} --tier conformance",
                )
        return Submission(run.path.name, cell, values, checks)

    @property
    def kubernetes(self) -> str:
        """Return the version of Kubernetes."""
        return str(self.values["kubernetes"])


def write_submission(submission: Submission, product: Mapping[str, str], output: Path) -> Path:
    """Write the four files into a new directory; return it.

    Raises:
        BadInput: not every spec of the set passed, or the directory exists.
    """
    specs = refuse_unfit(submission)
    try:
        output.mkdir(parents=True)
    except FileExistsError as error:
        raise BadInput(f"{output} exists", hint="name a directory that does not exist") from error
    shutil.copyfile(submission.checks / REPORT, output / REPORT)
    shutil.copyfile(submission.checks / LOG, output / E2E_LOG)
    text = yaml.safe_dump(dict(product), sort_keys=False, allow_unicode=True)
    (output / PRODUCT_FILE).write_text(text, encoding="utf-8")
    values = ", ".join(f"{axis} {value}" for axis, value in submission.values.items())
    readme = TEXT.format(
        **{name: product[name] for name in ("name", "version", "description")},
        kubernetes=submission.kubernetes,
        cell=submission.cell,
        run=submission.run,
        values=values,
        specs=specs,
    )
    (output / README).write_text(readme, encoding="utf-8")
    return output


def refuse_unfit(submission: Submission) -> int:
    """Refuse a run that reviewers would refuse; return how many specs passed.

    Raises:
        BadInput: specs of the set did not pass, or the log does not say so.
    """
    names = load_upstream(minor_of(submission.kubernetes)).of(CERTIFICATION)
    if not names:
        raise BadInput(
            f"the set of Kubernetes {submission.kubernetes} is not known",
            hint=f"vmatrix conformance list {submission.kubernetes} > matrix/conformance/upstream/MINOR.yml",
        )
    verdicts = read_verdicts(submission.checks / REPORT, names)
    others = [name for name, verdict in verdicts.items() if verdict.outcome is not SpecOutcome.PASSED]
    log = submission.checks / LOG
    if others:
        more = f" and {len(others) - MOST_NAMES} more" if len(others) > MOST_NAMES else ""
        listed = "; ".join(others[:MOST_NAMES])
        raise BadInput(
            f"{len(others)} of {len(names)} specs of {submission.cell} did not pass: {listed}{more}",
            hint="only a run of the whole set in which every spec passed is a proof; the cell's summary says more",
            paths=[log],
        )
    if not SUCCESS.search(log.read_text(encoding="utf-8", errors="replace")):
        raise BadInput(f"{log} does not say that all specs passed", hint="run the suite again", paths=[log])
    return len(names)


def read_product(path: Path) -> dict[str, str]:
    """Read a PRODUCT.yaml.

    Raises:
        BadInput: it cannot be read, lacks a field, or has one that the programme does not know.
    """
    hint = f"it needs {', '.join(REQUIRED)}; it may have {', '.join(OPTIONAL)}"
    raw = yaml_text.document(read_text(path), path, hint=hint, loader=yaml.BaseLoader)  # 1.10 is a text, as written
    if not isinstance(raw, dict):
        raise BadInput(f"{path} is not a mapping", hint=hint, paths=[path])
    wrong = [f"`{name}` is missing" for name in REQUIRED if not raw.get(name)]
    wrong += [f"`{name}` is not a text" for name, value in raw.items() if not isinstance(value, str)]
    wrong += [f"`{name}` is unknown" for name in raw if name not in (*REQUIRED, *OPTIONAL)]
    if raw.get("type") and str(raw["type"]).lower() not in TYPES:
        wrong.append(f"`type` is {raw['type']!r}, none of {', '.join(TYPES)}")
    if wrong:
        raise BadInput(f"{path}: {'; '.join(wrong)}", hint=hint, paths=[path])
    return {str(name): str(value) for name, value in raw.items()}

"""What CNCF's programme takes: complete, from a run in which all passed, and nothing otherwise."""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest
import yaml

from harness.errors import BadInput
from harness.events import Recorder
from harness.report.submission import REQUIRED, Submission, read_product, write_submission
from harness.rundir import RunDir
from harness.validate.conformance.upstream import load_upstream

PRODUCT = {**dict.fromkeys(REQUIRED, "x"), "type": "installer", "name": "Playbooks", "version": "2"}
LOG = "Ran 446 of 7579 Specs\nSUCCESS! -- 446 Passed | 0 Failed | 0 Pending | 7133 Skipped\nTest Suite Passed\n"


def product(folder: Path, **changes: object) -> Path:
    path = folder / "PRODUCT.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in {**PRODUCT, **changes}.items() if v is not None}))
    return path


def ran(folder: Path, failed: int = 0, log: str = LOG) -> Submission:
    run = RunDir(folder / "abc123")
    run.path.mkdir()
    Recorder(run.path).write("run-start", run="abc123", cells=["one"], values={"one": {"kubernetes": "1.36.3"}})
    checks = run.attempt("one").checks / "certification"
    checks.mkdir(parents=True)
    names = load_upstream("1.36").of("certification")
    states = ["failed" if number < failed else "passed" for number in range(len(names))]
    cases = "".join(
        f'<testcase name={quoteattr("[It] " + n)} status="{s}" time="1"/>' for n, s in zip(names, states, strict=True)
    )
    (checks / "junit_01.xml").write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    (checks / "ginkgo.log").write_text(log)
    return Submission.of(run, "one", checks)


def test_a_run_in_which_all_passed_gives_four_files(tmp_path: Path) -> None:
    done = write_submission(ran(tmp_path), read_product(product(tmp_path)), tmp_path / "v1.36" / "playbooks")
    assert sorted(path.name for path in done.iterdir()) == ["PRODUCT.yaml", "README.md", "e2e.log", "junit_01.xml"]
    assert yaml.safe_load((done / "PRODUCT.yaml").read_text()) == PRODUCT
    assert (done / "e2e.log").read_text() == LOG
    text = (done / "README.md").read_text()
    assert "Playbooks 2: conformance of Kubernetes 1.36.3" in text
    assert "446 specs" in text


def test_a_run_in_which_one_failed_is_refused_and_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="1 of 446 specs of one did not pass"):
        write_submission(ran(tmp_path, failed=1), PRODUCT, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_log_that_does_not_say_success_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="does not say that all specs passed"):
        write_submission(ran(tmp_path, log="FAIL! -- Suite Timeout Elapsed"), PRODUCT, tmp_path / "out")


def test_an_output_that_exists_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(BadInput, match="exists"):
        write_submission(ran(tmp_path), PRODUCT, tmp_path / "out")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"vendor": None}, "`vendor` is missing"),
        ({"colour": "red"}, "`colour` is unknown"),
        ({"name": ["a"]}, "`name` is not a text"),
        ({"type": "toy"}, "`type` is 'toy'"),
    ],
)
def test_a_product_file_that_does_not_fit_names_the_field(
    tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    with pytest.raises(BadInput, match=said) as refused:
        read_product(product(tmp_path, **changes))
    assert "documentation_url" in refused.value.hint


def test_a_cell_that_the_run_does_not_know_or_whose_suite_did_not_run_is_refused(tmp_path: Path) -> None:
    ran(tmp_path)
    run = RunDir(tmp_path / "abc123")
    with pytest.raises(BadInput, match="has no cell two"):
        Submission.of(run, "two", run.path)
    with pytest.raises(BadInput, match="the suite certification did not run in one"):
        Submission.of(run, "one", run.path)


@pytest.mark.parametrize("written", ["1.10", "010", "no", "2026-11-01", "1:30", "null"])
def test_a_value_without_quotes_stays_as_it_is_written(written: str, tmp_path: Path) -> None:
    path = product(tmp_path)
    path.write_text(path.read_text().replace("version: '2'", f"version: {written}"))
    assert read_product(path)["version"] == written

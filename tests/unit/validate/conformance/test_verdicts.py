"""What is made of ginkgo's reports and logs: recorded ones, cut off ones, and none at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.validate.conformance.verdicts import SpecOutcome, read_log, read_verdicts

RECORDED = Path(__file__).parent / "recorded"
VERSION = "[sig-api-machinery] server version should find the server version [Conformance]"


def report(tmp_path: Path, *cases: str) -> Path:
    path = tmp_path / "junit_01.xml"
    path.write_text(f"<testsuites><testsuite name='s'>{''.join(cases)}</testsuite></testsuites>", encoding="utf-8")
    return path


NOT_REACHED = "<skipped message='skipped'></skipped>"


def case(name: str, status: str, inside: str = "") -> str:
    return f"<testcase name='{name}' classname='s' status='{status}' time='1.5'>{inside}</testcase>"


def test_a_spec_that_passed_has_its_own_duration(tmp_path: Path) -> None:
    verdict = read_verdicts(report(tmp_path, case(f"[It] {VERSION}", "passed")), [VERSION])[VERSION]
    assert verdict.outcome is SpecOutcome.PASSED
    assert verdict.seconds == 1.5


def test_a_spec_that_failed_tells_why(tmp_path: Path) -> None:
    inside = "<failure message='timed out' type='failed'>pod never ran</failure>"
    verdict = read_verdicts(report(tmp_path, case(f"[It] {VERSION}", "failed", inside)), [VERSION])[VERSION]
    assert verdict.outcome is SpecOutcome.FAILED
    assert "timed out" in verdict.text
    assert "pod never ran" in verdict.text


@pytest.mark.parametrize("status", ["skipped", "pending", "interrupted", "panicked", "timedout", "aborted", ""])
def test_a_spec_with_any_other_status_than_passed_has_failed(tmp_path: Path, status: str) -> None:
    verdict = read_verdicts(report(tmp_path, case(f"[It] {VERSION}", status)), [VERSION])[VERSION]
    assert verdict.outcome is SpecOutcome.FAILED
    assert verdict.text


def test_a_spec_that_skipped_itself_has_not_passed_and_says_why(tmp_path: Path) -> None:
    inside = "<skipped message='skipped - needs two nodes'></skipped>"
    verdict = read_verdicts(report(tmp_path, case(f"[It] {VERSION}", "skipped", inside)), [VERSION])[VERSION]
    assert verdict.outcome is SpecOutcome.SKIPPED
    assert "needs two nodes" in verdict.text


def test_a_failed_spec_names_the_images_that_its_pods_asked_for_in_vain(tmp_path: Path) -> None:
    event = r"""<system-err>event: Failed to pull image "10.0.0.1:5000/a/b:1": not found; and \"c:2\"
    {kubelet cp-0} Failed: Failed to pull image \"10.0.0.1:5000/d:3\"</system-err>"""
    inside = f"<failure message='timed out'></failure>{event}"
    verdict = read_verdicts(report(tmp_path, case(f"[It] {VERSION}", "failed", inside)), [VERSION])[VERSION]
    assert verdict.unpulled == ("10.0.0.1:5000/a/b:1", "10.0.0.1:5000/d:3")


def test_a_spec_that_the_report_lacks_has_failed(tmp_path: Path) -> None:
    verdict = read_verdicts(report(tmp_path, case("[It] another", "passed")), [VERSION])[VERSION]
    assert verdict.outcome is SpecOutcome.FAILED
    assert "0 specs" in verdict.text


def test_a_spec_that_the_report_has_twice_has_failed(tmp_path: Path) -> None:
    once = case(f"[It] {VERSION}", "passed")
    assert read_verdicts(report(tmp_path, once, once), [VERSION])[VERSION].outcome is SpecOutcome.FAILED


def test_a_suite_node_of_the_same_name_is_no_spec(tmp_path: Path) -> None:
    path = report(tmp_path, case(f"[SynchronizedBeforeSuite] {VERSION}", "passed"), case(VERSION, "passed"))
    assert read_verdicts(path, [VERSION])[VERSION].outcome is SpecOutcome.FAILED


def test_a_suite_that_never_began_fails_every_spec_with_its_own_words() -> None:
    verdicts = read_verdicts(RECORDED / "junit-no-api.xml", [VERSION, "another"])
    assert {v.outcome for v in verdicts.values()} == {SpecOutcome.FAILED}
    assert "context deadline exceeded" in verdicts[VERSION].text
    assert "connection refused" in verdicts["another"].text


def test_a_run_that_was_out_of_time_tells_what_each_spec_came_to() -> None:
    secrets = "[sig-node] Secrets should be consumable from pods in env vars [NodeConformance] [Conformance]"
    lease = "[sig-node] Lease lease API should be available [Conformance]"
    verdicts = read_verdicts(RECORDED / "junit-timed-out.xml", [VERSION, secrets, lease])
    assert verdicts[VERSION].outcome is SpecOutcome.PASSED
    assert 0 < verdicts[VERSION].seconds < 1
    assert verdicts[secrets].outcome is SpecOutcome.FAILED
    assert verdicts[secrets].seconds > 10
    assert verdicts[secrets].text.startswith("cut short: time was up after 12 s of it\n")
    assert "suite timeout occurred" in verdicts[secrets].text
    assert verdicts[lease].outcome is SpecOutcome.NOT_RUN
    assert verdicts[lease].text == "cut short: time was up before it began"
    assert [name for name, verdict in verdicts.items() if verdict.cut_short] == [secrets, lease]


def test_a_run_that_is_told_to_end_is_cut_short_too(tmp_path: Path) -> None:
    told = "<failure message='[INTERRUPTED] Interrupted by User' type='interrupted'></failure>"
    path = report(tmp_path, case("[It] a", "interrupted", told), case("[It] b", "skipped", NOT_REACHED))
    verdicts = read_verdicts(path, ["a", "b"])
    assert (verdicts["a"].outcome, verdicts["b"].outcome) == (SpecOutcome.FAILED, SpecOutcome.NOT_RUN)
    assert verdicts["a"].cut_short
    assert verdicts["b"].cut_short


def test_a_spec_with_a_limit_of_its_own_does_not_cut_others_short(tmp_path: Path) -> None:
    inside = "<failure message='' type='timedout'>[TIMEDOUT] A node timeout occurred</failure>"
    path = report(tmp_path, case("[It] a", "timedout", inside), case("[It] b", "skipped", NOT_REACHED))
    verdicts = read_verdicts(path, ["a", "b"])
    assert {verdict.outcome for verdict in verdicts.values()} == {SpecOutcome.FAILED}
    assert not [name for name, verdict in verdicts.items() if verdict.cut_short]


def test_what_is_wrong_after_the_last_spec_is_no_reason_for_any(tmp_path: Path) -> None:
    wrong = case("[ReportAfterSuite] Log Check", "failed", "<failure message='too late'></failure>")
    own = case("[It] a", "skipped", "<skipped message='skipped - needs two zones'/>")
    assert read_verdicts(report(tmp_path, own, wrong), ["a"])["a"].outcome is SpecOutcome.SKIPPED


def test_without_a_report_every_spec_has_failed(tmp_path: Path) -> None:
    verdict = read_verdicts(tmp_path / "none.xml", [VERSION])[VERSION]
    assert verdict.outcome is SpecOutcome.FAILED
    assert "none.xml" in verdict.text


def test_a_torn_report_fails_every_spec(tmp_path: Path) -> None:
    path = tmp_path / "junit_01.xml"
    path.write_text("<testsuites><testsuite>", encoding="utf-8")
    assert read_verdicts(path, [VERSION])[VERSION].outcome is SpecOutcome.FAILED


LINE = "-" * 30
PASSED = "[sig-node] Secrets should be consumable from pods in env vars [NodeConformance] [Conformance]"
FAILED = "[sig-apps] Job should run a job to completion when tasks succeed"
CUT = "[sig-network] Services should serve a basic endpoint from pods [Conformance]"
SKIPPED = "[sig-node] Sysctls [LinuxOnly] should not launch unsafe sysctls"
NEVER = "[sig-apps] Job should delete a job"
LOG = f"""Running Suite: Kubernetes e2e suite - /bin
Will run 5 of 7600 specs
{LINE}
[SynchronizedBeforeSuite] PASSED [0.094 seconds]
[SynchronizedBeforeSuite]
test/e2e/e2e.go:69
{LINE}
• [8.120 seconds]
{PASSED}
test/e2e/common/node/secrets.go:49

  Timeline >>
  STEP: Creating a kubernetes client @ 11/21/26 12:59:05.9
  ------------------------------
  << Timeline
{LINE}
• [FAILED] [301.500 seconds]
[sig-apps] Job [It] should run a job to completion when tasks succeed
test/e2e/apps/job.go:81

  [FAILED] Timed out after 300 s
  In [It] at: test/e2e/apps/job.go:99
{LINE}
S [SKIPPED] [0.010 seconds]
{SKIPPED}
test/e2e/common/node/sysctl.go:1
{LINE}
• [TIMEDOUT] [20.000 seconds]
[sig-network] Services [BeforeEach] should serve a basic endpoint from pods [Conformance]
test/e2e/network/service.go:800
{LINE}
• [7.0"""


def test_specs_that_ended_have_their_verdict_and_the_others_were_not_run(tmp_path: Path) -> None:
    log = tmp_path / "ginkgo.log"
    log.write_text(LOG, encoding="utf-8")
    found = read_log(log, [PASSED, FAILED, CUT, SKIPPED, NEVER])
    assert (found[PASSED].outcome, found[PASSED].seconds, found[PASSED].text) == (SpecOutcome.PASSED, 8.12, "")
    assert found[FAILED].outcome is SpecOutcome.FAILED
    assert "[FAILED] Timed out after 300 s" in found[FAILED].text
    assert not found[FAILED].cut_short
    assert found[CUT].outcome is SpecOutcome.FAILED
    assert found[CUT].text.startswith("cut short: time was up after 20 s of it\n")
    for name in (SKIPPED, NEVER):
        assert found[name].outcome is SpecOutcome.NOT_RUN
        assert found[name].text == "cut short: time was up before it began, or had ended"
    assert [name for name, verdict in found.items() if verdict.cut_short] == [CUT, SKIPPED, NEVER]


def test_without_a_log_no_spec_was_run(tmp_path: Path) -> None:
    assert {one.outcome for one in read_log(tmp_path / "none", [PASSED, FAILED]).values()} == {SpecOutcome.NOT_RUN}

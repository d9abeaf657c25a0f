"""What a log says that ends anywhere: the specs that ended have their verdict."""

from __future__ import annotations

from pathlib import Path

from harness.validate.conformance.ginkgo_log import read_log
from harness.validate.conformance.verdicts import SpecOutcome

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

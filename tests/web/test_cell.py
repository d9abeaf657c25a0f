"""A cell in a night: why it failed, its steps against their own past, the command to run it again."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.keys import Keys

from tests.web.documents import NIGHTS, Document
from tests.web.page import Page


def opened(page: Page, sample: Document, name: str, *, night: int | None = None) -> str:
    """Open a cell by its address and return what its dialog says."""
    found = next(cell["id"] for cell in sample["cells"] if f"-{name}-" in cell["id"])
    page.show(sample, f"#cell={found}" + (f"&night={1000 + night}" if night is not None else ""))
    return " ".join(page.text("#cell").split())


def test_a_click_on_a_name_opens_the_cell_and_the_address_says_so(shown: Page) -> None:
    shown.one("#attention-rows .cell-name").click()
    assert shown.text("#cell-id") == "k1363-d13-newly-broken-000001"
    assert "cell=k1363-d13-newly-broken-000001" in shown.fragment()


def test_going_back_closes_the_cell(shown: Page) -> None:
    shown.one("#attention-rows .cell-name").click()
    shown.js("history.back()")
    shown.js("return new Promise((done) => setTimeout(done, 100))")
    assert not shown.one("#cell").is_displayed()
    assert "cell=" not in shown.fragment()


def test_failing_checks_have_their_whole_message(page: Page, sample: Document) -> None:
    said = opened(page, sample, "newly-broken")
    assert page.texts("#cell article h4") == ["network: test_dns_answers", "cluster: test_every_node_is_ready"]
    assert page.texts("#cell pre")[1] == sample["messages"][0]
    assert "hint: look at the flannel pods" in said
    assert "after deploy · blame: product" in said
    assert "seen in 4 other cells too" in said


def test_a_failing_step_is_told_as_a_step(page: Page, sample: Document) -> None:
    said = opened(page, sample, "infra-fails")
    assert "failed (infra), at attempt 2" in said
    assert "step provision / machines" in said
    assert "attempt 1 failed (infra), attempt 2 failed (infra)" in said


def test_job_pipeline_commit_and_logs_are_linked(page: Page, sample: Document) -> None:
    opened(page, sample, "newly-broken")
    links = dict(page.each("#cell .links a", "[e.textContent, e.getAttribute('href')]"))
    project = "https://gitlab.example/group/project"
    assert links == {
        "job": f"{project}/-/jobs/7039",
        "pipeline": f"{project}/-/pipelines/1039",
        "commit 13131313": f"{project}/-/commit/{'13' * 20}",
        "logs": "runs/run39/newly-broken/logs",
    }


def test_steps_are_held_against_their_own_past(page: Page, sample: Document) -> None:
    opened(page, sample, "slower")
    rows = [" ".join(text.split()) for text in page.texts("#cell section .steps tbody tr")]
    assert rows[0] == "provision 40 s 40 s"
    assert rows[1].startswith("deploy 4 min 00 s 2 min 3")
    assert "1.5\N{MULTIPLICATION SIGN}" in rows[1]
    assert rows[1].endswith("slower")
    assert len(page.all("#cell .steps tr.notable")) == 1


def test_a_step_without_enough_past_has_no_usual_time(page: Page, sample: Document) -> None:
    opened(page, sample, "slower", night=1)
    rows = [" ".join(text.split()) for text in page.texts("#cell section .steps tbody tr")]
    assert rows[0] == "provision 40 s \N{EN DASH}"


def test_the_command_can_be_copied(page: Page, sample: Document) -> None:
    opened(page, sample, "newly-broken")
    page.driver.execute_cdp_cmd(
        "Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    )
    page.one("#cell .command button").click()
    page.js("return new Promise((done) => setTimeout(done, 100))")
    assert page.text("#cell .command button") == "Copied"
    assert page.text("#live") == "The command is on the clipboard."
    page.press(Keys.ESCAPE)
    page.one("input[name=q]").send_keys(Keys.CONTROL, "v")
    command = "vmatrix run 'k1363-d13-newly-broken-000001' --tier nightly"
    assert page.one("input[name=q]").get_attribute("value") == command


def test_without_a_clipboard_the_command_is_selected(page: Page, sample: Document) -> None:
    opened(page, sample, "newly-broken")
    page.js("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.one("#cell .command button").click()
    assert page.text("#cell .command button") == "Selected"
    assert page.js("return getSelection().toString()") == "vmatrix run 'k1363-d13-newly-broken-000001' --tier nightly"


def test_the_nights_before_can_be_walked_through(page: Page, sample: Document) -> None:
    opened(page, sample, "absent")
    assert "not run" in page.text("#cell .verdict")
    page.one("#cell-before").click()
    assert f"night={1000 + NIGHTS - 10}" in page.fragment()
    assert " ".join(page.text("#cell .verdict").split()).startswith("✓ passed in 5 min")
    assert not page.one("#cell-after").is_enabled()


def test_an_older_night_shows_its_own_failure(page: Page, sample: Document) -> None:
    said = opened(page, sample, "mended", night=NIGHTS - 3)
    assert "failed (harness)" in said
    assert "network: test_dns_answers" in said


@pytest.mark.parametrize(
    ("name", "said"), [("newly-broken", "1 failed, 1 passed, 1 not run"), ("slower", "0 failed, 1 passed, 1 not run")]
)
def test_checks_of_the_last_run_are_counted(page: Page, sample: Document, name: str, said: str) -> None:
    assert said in opened(page, sample, name)


def test_a_cell_that_left_the_plan_says_so(page: Page, sample: Document) -> None:
    sample["cells"][0]["planned"] = False
    assert "no longer in the plan" in opened(page, sample, "always-passes")

"""The dashboard in a browser: a real server with real jobs, headless Chromium."""

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from browsers import DESK, PHONE, chromium, needs_chromium, out_of_reach, overflow, violations
from dashboard_runs import two_jobs_and_a_late_one
from server_process import ServerProcess, server_process
from waiting import until

from volvelle.dashboard.run_server import make_server
from volvelle.report.charts.palette import DARK, LIGHT

pytestmark = needs_chromium

CONFIG = """
cluster = "2x2"
policy = "fifo"

[listen]
port = 0
"""
VIEWS = (
    *(
        "overview",
        "queue",
        "timeline",
        "submit",
        "nodes",
        "shares",
        "history",
        "whatif",
        "policies",
    ),
    "job/0",
)


@dataclass
class Site:
    """A server with jobs, a browser, tokens by user, and what the browser asked for or complained of."""

    server: ServerProcess
    api: httpx.Client
    browser: Any
    tokens: dict[str, str]
    requested: set[str] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)

    def page(self, user: str, **settings: Any) -> Any:
        """A page of ``user``, who logs in by keyboard alone."""
        page = self.browser.new_context(**settings).new_page()
        page.on("request", lambda request: self.requested.add(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._on_console)
        page.goto(self.server.url)
        page.wait_for_selector("input[type=password]:focus")
        page.keyboard.type(self.tokens[user])
        page.keyboard.press("Enter")
        page.wait_for_selector("nav a")
        return page

    def _on_console(self, message: Any) -> None:
        if message.type == "error" and "401" not in message.text:  # of tests that log out
            self.errors.append(message.text)

    def go(self, page: Any, view: str) -> None:
        page.goto(f"{self.server.url}/dashboard/#/{view}")
        page.wait_for_selector("h1")


def submit(api: httpx.Client, **job: Any) -> None:
    """Submit a job that takes ten minutes."""
    answer = api.post("/v1/jobs", json={"command": ["sleep", "600"], "estimate": "10m", **job})
    assert answer.status_code == 201, answer.text


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("dashboard")
    with server_process(folder, CONFIG) as server, chromium() as browser:
        root = (folder / "volvelle-serve" / "token").read_text().strip()
        api = httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {root}"})
        made = api.post("/v1/tokens", json={"user": "dana"}).json()
        submit(api, name="long", gpus=2, command=["sh", "-c", "echo epoch 1; sleep 600"])
        submit(api, name="wide", gpus=4)
        submit(api, name="wide", gpus=4)
        yield Site(server, api, browser, {"root": root, "dana": made["token"]})


@pytest.fixture(autouse=True)
def no_page_stays(site: Site) -> Iterator[None]:
    """A page that stays open follows the server beside all later tests."""
    yield
    for context in site.browser.contexts:
        context.close()


@pytest.mark.parametrize("settings", [DESK, PHONE], ids=["desk, light", "phone, dark"])
def test_every_view_is_accessible_and_fits(site: Site, settings: dict[str, Any]) -> None:
    page = site.page("root", **settings)
    for view in VIEWS:
        site.go(page, view)
        page.wait_for_function("() => document.querySelector('main').children.length > 1")
        if view == "job/0":
            page.wait_for_selector("pre.log:has-text('epoch 1')")
            page.wait_for_selector("svg.plan")
        assert not (found := violations(page)), f"{view}: {found}"
        assert overflow(page) <= 0, f"{view} is wider than the page"
        assert page.evaluate(_TABLES_FIT), f"a table of {view} scrolls sideways"
    assert not site.errors
    assert all(url.startswith((site.server.url, "blob:")) for url in site.requested)


_TABLES_FIT = (
    "[...document.querySelectorAll('.scroll')].every((t) => t.clientWidth >= t.scrollWidth)"
)

KEYS = dict(zip("oqtunshwp", (view for view in VIEWS if view != "job/0"), strict=True))


def test_every_view_is_opened_and_gone_through_by_keyboard(site: Site) -> None:
    page = site.page("root", **DESK)
    for key, view in KEYS.items():
        page.locator("main").focus()
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_function(f"() => location.hash === '#/{view}'")
        page.wait_for_function("() => document.querySelector('main').children.length > 1")
        assert not out_of_reach(page), view
    site.go(page, "job/0")
    page.wait_for_selector("svg.plan")
    assert not out_of_reach(page)
    assert not site.errors


def test_a_phone_shows_one_line_of_header_and_a_card_for_each_row(site: Site) -> None:
    page = site.page("root", **PHONE)
    site.go(page, "queue")
    page.wait_for_selector("#queue-0")
    heights = page.evaluate(
        "['body > header', '#queue-0', 'thead'].map((one) => document.querySelector(one).offsetHeight)"
    )
    assert heights[0] <= 48
    assert heights[1] > 100
    assert heights[2] == 1, "cards say what the heads said"
    assert page.locator("#queue-0 [data-state=running]").count() == 1
    for waiting in page.locator("tbody tr:has([data-state=waiting])").all():
        assert all(cell.is_visible() for cell in waiting.locator("td.wide:not(:empty)").all())
    assert page.locator("td.wide:not(:empty)").count() > 1, "names and reasons"
    cards = page.evaluate(_CARDS)
    assert all(height == lines * 24 + 14 for height, lines in cards), "as high as what they hold"
    assert not site.errors


_CARDS = """() => [...document.querySelectorAll("tbody tr[id]")].map((row) => {
  const shown = [...row.cells].filter((cell) => cell.checkVisibility() && !cell.matches(".pick"));
  const halves = shown.reduce((sum, cell) => sum + (cell.matches(".line") ? 2 : 1), 0);
  return [row.offsetHeight, Math.ceil(halves / 2)];
})"""
"""The heights of cards, CSS pixels, and the lines that their cells take."""


def test_a_phone_shows_every_view_and_offers_every_policy_within_its_width(site: Site) -> None:
    page = site.page("root", **PHONE)
    site.go(page, "policies")
    width = PHONE["viewport"]["width"]
    shown = [link for link in page.locator("nav a").all() if link.is_visible()]
    assert len(shown) == 4, "one row"
    page.get_by_role("button", name="More").click()
    links = [link.bounding_box() for link in page.locator("nav a").all()]
    assert len(links) == 9
    page.get_by_role("link", name="Nodes").click()
    page.wait_for_selector("h1:has-text('Nodes')")
    assert page.locator("nav .rest").is_hidden()
    site.go(page, "policies")
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in links)
    page.wait_for_selector("h2:has-text('Fair shares')")
    assert page.locator(".choices li").count() == 0, "the goals alone"
    shown = page.locator("section", has_text="Short completion times")
    shown.get_by_role("button", name="Show all").click()
    use = page.get_by_role("button", name="Use srsf", exact=True).bounding_box()
    assert use["x"] + use["width"] <= width
    assert not site.errors


def test_a_view_that_does_not_exist_is_named_and_the_skip_link_leaves_the_view(site: Site) -> None:
    page = site.page("root", **DESK)
    for name in ("nope", "constructor"):
        site.go(page, name)
        page.wait_for_selector(f"#status:has-text('There is no view {name}')")
        assert page.locator("nav a[aria-current]").inner_text() == "Overview"
    page.evaluate("location.hash = '#/jobs/1'")
    page.wait_for_url("**#/job/1")
    site.go(page, "nodes")
    assert page.locator("#status").inner_text() == ""
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.activeElement.id === 'main'")
    assert page.locator("h1").inner_text() == "Nodes"
    assert not site.errors


def test_light_and_dark_by_a_switch_that_is_remembered(site: Site) -> None:
    page = site.page("root", **DESK)
    paper = "getComputedStyle(document.documentElement).getPropertyValue('--paper')"
    assert page.evaluate(paper) == LIGHT["paper"]
    page.get_by_label("Light or dark").select_option("dark")
    assert page.evaluate(paper) == DARK["paper"]
    page.reload()
    page.wait_for_selector("nav a")
    assert page.evaluate(paper) == DARK["paper"]
    assert not site.errors


def test_the_overview_says_in_a_sentence_what_its_lists_show(site: Site) -> None:
    page = site.page("root", **DESK)
    site.go(page, "overview")
    lead = page.locator(".lead")
    page.wait_for_selector(".lead:has-text('2 of 4 GPUs are in use. The next job starts at')")
    assert page.locator(".type").inner_text() == "GPU 2 of 4 in use on 2 nodes; 2 free"
    page.wait_for_selector("svg.load .was")
    assert "now 2 of 4 GPUs, 2 waiting" in page.locator("svg.load").get_attribute("aria-label")
    assert page.locator("#status").bounding_box()["height"] == 0.0  # nothing is said
    shown = page.locator("section", has_text="Starting next").locator("li")
    assert "wide" in shown.first.inner_text()
    lead.get_by_role("link", name="2 waiting").click()
    page.wait_for_selector("#queue-1")
    assert page.url.endswith("#/queue?state=waiting")
    answer = site.api.get("/v1/load").json()
    assert answer["columns"] == ["time", "held", "waiting"]
    assert answer["points"][-1][1:] == [2, 2]
    assert not site.errors


def test_both_ends_of_a_span_are_shown_to_the_same_precision(site: Site) -> None:
    page = site.page("root", **DESK)
    near, far = page.evaluate(
        """async () => {
  const { now, span } = await import("/dashboard/dom.js"), at = now();
  return [span(at + 6, at + 48), span(at + 6, at + 3600)];
}"""
    )
    assert [text.count(":") for text in (*near, *far)] == [2, 2, 1, 1]
    site.go(page, "overview")
    row = page.locator("section", has_text="Finishing next").locator("li").first
    row.wait_for()
    begins, ends = (row.locator(each).inner_text() for each in ("b", ":scope > .quiet"))
    assert begins.count(":") == ends.count(":")


def test_what_policies_there_are_is_offered_where_one_is_named(site: Site) -> None:
    page = site.page("root", **DESK)
    site.go(page, "whatif")
    page.wait_for_selector("#policies option[value=srsf]", state="attached")
    page.wait_for_selector("#admissions option[value=accept-all]", state="attached")
    for label in ("Policy", "Under policy"):
        assert page.get_by_label(label, exact=True).get_attribute("list") == "policies"
    page.get_by_role("link", name="All that there are").click()
    page.wait_for_selector(".card:has-text('Decides now'):has-text('fifo First in, first out')")
    few = page.locator(".choices li").count()
    assert page.get_by_role("button", name="Use slurm", exact=True).count() == 1
    page.get_by_label("Filter by text").fill("mean jct")
    page.get_by_label("Filter by need").select_option("Without estimates of run times")
    row = page.locator(".choices li", has=page.get_by_role("button", name="Use las", exact=True))
    assert "Least attained service" in row.inner_text()
    assert "Tiresias (NSDI'19)" in row.inner_text()
    assert page.get_by_role("button", name="Use srsf", exact=True).count() == 0
    assert page.locator("section:has(h2:has-text('Deadlines'))").is_hidden()
    page.get_by_label("Filter by text").fill("")
    page.get_by_label("Filter by need").select_option("Whatever they need")
    assert page.locator(".choices li").count() == few < 30
    assert page.locator("section:has(h2:has-text('Deadlines'))").is_visible()
    assert not violations(page)
    page.get_by_role("button", name="Use srsf", exact=True).click()
    assert "srsf" in page.get_by_role("dialog").inner_text()
    page.get_by_role("dialog").get_by_role("button", name="Back").click()
    assert site.api.get("/v1/policy").json()["policy"] == "fifo"
    assert not site.errors


def test_the_field_of_the_token_fits_a_phone(site: Site) -> None:
    page = site.browser.new_context(**PHONE).new_page()
    page.goto(site.server.url)
    box = page.get_by_label("Token").bounding_box()
    assert box["x"] >= 8
    assert box["x"] + box["width"] <= PHONE["viewport"]["width"] - 8


def test_the_timeline_is_left_without_an_error(site: Site) -> None:
    page = site.page("root", **DESK)
    for _ in range(3):
        site.go(page, "timeline")
        page.wait_for_selector(".legend li")
        site.go(page, "nodes")
        page.evaluate("dispatchEvent(new Event('resize'))")
        page.wait_for_timeout(100.0)
    assert not site.errors


def test_the_queue_by_keyboard_remembered_and_live(site: Site) -> None:
    page = site.page("root", **DESK)
    page.keyboard.press("g")
    page.keyboard.press("q")
    page.wait_for_selector("#queue-2")
    page.keyboard.press("/")
    page.keyboard.type("wide")
    page.wait_for_selector("#queue-0", state="detached")
    assert page.url.endswith("#/queue?text=wide")
    page.reload()
    page.wait_for_selector("#queue-2")
    assert page.locator("#queue-0").count() == 0
    for key in ("/", "Escape", "End", "Space"):
        page.keyboard.press(key)
    page.wait_for_selector("#queue-2[aria-selected=true]")
    submit(site.api, name="after it", after=[2])
    page.get_by_role("button", name="Cancel", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog")
    page.keyboard.press("Enter")
    page.wait_for_selector("#queue-2", state="detached")
    page.wait_for_selector(
        "#status:has-text('Job 2 is cancelled. job 3 was to run after its success')"
    )
    submit(site.api, name="wide too", gpus=4)
    page.wait_for_selector("#queue-4")
    page.locator("table[role=grid]").focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('wide too')")
    with page.expect_download() as saved:
        site.go(page, "queue")
        page.get_by_role("button", name="CSV").click()
    text = Path(saved.value.path()).read_text()
    assert text.splitlines()[0].startswith("Job,Name,User,GPUs,State,Start,Done")
    assert re.search(r",long,root,2,running,20\d\d-\d\d-\d\dT", text), "moments are dates"
    with page.expect_download() as saved:
        site.go(page, "nodes")
        page.get_by_role("button", name="CSV").click()
    assert Path(saved.value.path()).read_text().splitlines()[:2] == [
        "Node,Type,GPUs,Free,State,Jobs",
        "node-0,GPU,2,0,up,0",
    ]
    assert "wide too" in text


def test_arrows_move_at_once_after_the_keys_of_a_view(site: Site) -> None:
    page = site.page("root", **DESK)
    for key in ("g", "q"):
        page.keyboard.press(key)
    page.wait_for_selector("#queue-1.active")
    assert re.search(r"~\d+ %", page.locator("#queue-0").inner_text()), "no iterations: by its time"
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('Job 1')")
    page.wait_for_selector(".lead:has-text('Starts about')")
    page.wait_for_selector("svg.plan .pale")
    assert not site.errors


def test_the_queue_is_in_groups_and_a_click_anywhere_in_a_row_opens_the_job(site: Site) -> None:
    page = site.page("root", **DESK)
    site.go(page, "queue")
    page.wait_for_selector("#queue-1 .plan-bar .pale")
    waiting, running = page.locator("tr.group").all_inner_texts()
    assert waiting.startswith("Waiting: 2, for 8 GPUs; the last starts at ")
    assert running == "Running: 1, on 2 GPUs"
    assert "now" in page.get_by_role("columnheader", name="Plan").inner_text()
    page.get_by_role("button", name="GPUs").click()
    page.wait_for_selector("tr.group", state="detached")
    rows = page.locator("tbody tr[id]").evaluate_all("(rows) => rows.map((row) => row.id)")
    assert rows[:2] == ["queue-0", "queue-1"]
    assert len(rows) == 3
    page.locator("#queue-0 .of-user").click()
    page.wait_for_selector("h1:has-text('Job 0')")
    page.go_back()
    page.locator("#queue-1 .of-name a").click()
    page.wait_for_selector("h1:has-text('Job 1')")
    assert not site.errors


def test_a_table_without_rows_says_so(site: Site) -> None:
    page = site.page("root", **DESK)
    site.go(page, "queue?text=nothing+of+this+name")
    page.wait_for_selector(".empty:has-text('No job is like this.')")
    assert page.locator("table[role=grid]").is_hidden()
    assert not violations(page)
    assert not site.errors


def test_a_guessed_p90_is_called_so_and_puts_no_job_at_risk(site: Site) -> None:
    page = site.page("root", **DESK)
    submit(site.api, name="due", gpus=1, estimate="1m", deadline={"within": "1h", "kind": "soft"})
    [due] = [job for job in site.api.get("/v1/jobs").json()["jobs"] if job["name"] == "due"]
    site.go(page, "queue")
    row = page.locator(f"#queue-{due['number']}")
    row.locator(".of-p50.quiet").wait_for()
    assert "P90 is a guess" in page.locator(".count").inner_text()
    assert row.locator(".plan-bar.guess").count() == 1
    known = site.api.get(f"/v1/jobs/{due['number']}").json()
    assert known["predicted_p50"] < known["due"] < known["predicted_p90"]
    assert page.get_by_role("button", name="At risk").inner_text() == "At risk 0"
    site.go(page, f"job/{due['number']}")
    page.wait_for_selector("h2:has-text('P90 is a guess until 20 jobs have finished')")
    assert site.api.post(f"/v1/jobs/{due['number']}/cancel").status_code == 200
    assert not site.errors


def test_what_the_bar_beside_the_views_says(site: Site) -> None:
    page = site.page("root", **DESK)
    page.wait_for_selector("#place .live")
    assert page.locator("#place").inner_text().split("\n") == [
        "Live", "2 nodes, 4 GPUs", "Policy fifo",
    ]  # fmt: skip
    assert page.locator("nav .queue small").inner_text() == "3"
    assert page.locator("nav .overview small").inner_text() == ""
    page.wait_for_selector(
        ".sub:has-text('2 GPUs (at most 2 on a node) are free; the next job, 1 wide, asks for 4 GPUs')"
    )
    assert not site.errors


def test_a_job_is_submitted_after_it_was_asked_about_and_changed(site: Site) -> None:
    page = site.page("dana", **DESK)
    site.go(page, "submit")
    submit_it = page.get_by_role("button", name="Submit it")
    page.get_by_label("Command").fill("sleep 600")
    page.get_by_label("Name").fill("asked first")
    page.get_by_label("GPUs", exact=True).fill("4")
    assert submit_it.is_disabled()
    page.get_by_role("button", name="Ask").click()
    page.wait_for_selector(".answer .lead:has-text('Finishes')")
    submit_it.click()
    page.wait_for_selector("h1:has-text('asked first')")
    number = int(page.url.rpartition("/")[2])
    page.get_by_role("button", name="Change").click()
    assert page.get_by_label("Takes about").input_value() == "1h 00m"
    page.get_by_label("Takes about").fill("2h")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"#status:has-text('Job {number} is changed.')")
    assert site.api.get(f"/v1/jobs/{number}").json()["request"]["estimate"] == 7200
    assert not violations(page)
    assert site.api.post(f"/v1/jobs/{number}/cancel").status_code == 200
    page.wait_for_selector(".lead:has-text('Cancelled')")
    assert not site.errors


def test_a_click_on_the_timeline_opens_the_job_that_is_drawn_there(site: Site) -> None:
    page = site.page("root", **DESK)
    site.go(page, "timeline")
    page.wait_for_selector(".legend li")
    canvas = page.locator("canvas")
    canvas.press("0")
    box = canvas.bounding_box()
    assert box is not None
    place = {"x": 84 + 0.2 * (box["width"] - 94), "y": 8 + 0.25 * (box["height"] - 50)}
    canvas.click(position=place)  # soon after now, on the first node
    page.wait_for_function("() => /#.job.[0-9]+$/.test(location.hash)")
    page.wait_for_selector(".chip:has-text('running')")
    assert not site.errors


LANES = """
async () => {
  const { LanePlan } = await import("/dashboard/lanes.js");
  const plan = new LanePlan(4, 0);
  plan.hold(0, 100, [0, 1]);
  plan.hold(1, 300, [2, 3]);
  plan.hold(6, 0, [0, 1, 2]);  // is stopping
  plan.free();
  plan.start(2, 100, 200, 2);  // after job 0
  plan.start(3, 150, 250, 4);  // stops jobs 2 and 1
  plan.start(4, 150, 400, 1);  // no lane is left at this moment
  plan.start(5, 252, 400, 4);
  return [...plan.bars()].map((bar) => [bar.row, bar.from, bar.until, bar.lane, bar.height, bar.cut]);
}
"""


def test_a_lane_has_one_holder_and_what_is_stopped_is_marked(site: Site) -> None:
    bars = site.page("root", **DESK).evaluate(LANES)
    assert sorted(bars) == [
        [0, 0, 100, 0, 2, 0],
        [1, 0, 150, 2, 2, 1],
        [2, 100, 150, 0, 2, 1],
        [3, 150, 250, 0, 4, 0],
        [5, 252, 400, 0, 4, 0],
    ]


def test_a_job_of_the_timeline_is_taken_in_hand_and_opened_by_keyboard(site: Site) -> None:
    page = site.page("root", **DESK)
    site.go(page, "timeline")
    page.wait_for_selector(".legend li")
    page.locator("canvas").focus()
    page.keyboard.press("j")
    page.wait_for_selector(".tip:has-text('finishes')")
    page.keyboard.press("n")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('Job ')")
    assert not site.errors


def test_a_user_sees_rows_of_others_and_no_more(site: Site) -> None:
    page = site.page("dana", **DESK)
    site.go(page, "queue")
    page.wait_for_selector("#queue-0")
    site.go(page, "job/0")
    page.wait_for_selector(".chip:has-text('running')")
    assert page.locator("pre.log").is_hidden()
    assert "sleep 600" not in page.content()
    assert page.get_by_role("link", name="What if").count() == 0
    site.go(page, "submit")
    page.get_by_role("button", name="Ask").click()
    page.wait_for_selector(".answer dd")
    cookies = page.context.cookies()
    assert [(each["httpOnly"], each["sameSite"]) for each in cookies] == [(True, "Strict")]
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Log out").click()
    page.wait_for_selector("input[type=password]")
    until(lambda: page.evaluate("fetch('/v1/queue').then((answer) => answer.status)") == 401)


def test_an_operator_asks_what_yesterday_would_have_been(site: Site) -> None:
    submit(site.api, name="short", gpus=1, command=["true"], estimate="1s", priority=5)
    site.api.post("/v1/jobs/0/cancel")
    until(lambda: site.api.get("/v1/jobs?over=true&state=finished").json()["jobs"])
    page = site.page("root", **DESK)
    site.go(page, "whatif")
    form = page.locator("section", has_text="Yesterday, under another policy")
    form.get_by_label("Under policy").fill("srsf")
    form.get_by_role("button", name="Ask").click()
    page.wait_for_selector("caption:has-text('Yesterday')")
    assert form.get_by_role("row", name="Mean completion time").get_by_role("cell").count() == 4
    assert not violations(page)
    assert not site.errors


def test_an_operator_puts_a_point_of_a_front_in_place(site: Site, tmp_path: Path) -> None:
    figures = [("fastest", "srsf", 10.0, 20.0), ("most-predictable", "easy", 30.0, 5.0)]
    front = {
        "objectives": [{"name": "jct:mean", "unit": "s"}, {"name": "eta_error:p99", "unit": "%"}],
        "points": [
            {
                "written": written, "names": [name], "in_words": "",
                "train": {"jct:mean": {"mean": jct}, "eta_error:p99": {"mean": error}},
            }
            for name, written, jct, error in figures
        ],
    }  # fmt: skip
    (tmp_path / "front.json").write_text(json.dumps(front))
    page = site.page("root", **DESK)
    site.go(page, "policies")
    assert page.get_by_role("button", name="Keep on the server").is_hidden()
    page.get_by_label("front.json").set_input_files(tmp_path / "front.json")
    page.wait_for_selector("circle.pick")
    page.get_by_role("button", name="Keep on the server").click()
    page.wait_for_selector("#status:has-text('The server keeps front.')")
    page.reload()
    page.wait_for_selector("option[value=front]", state="attached")
    page.get_by_label("Kept by the server").select_option("front")
    page.wait_for_selector("circle.pick")
    assert not violations(page)
    page.get_by_role("row", name=re.compile("^fastest ")).get_by_role("button").click()
    page.get_by_role("dialog").get_by_role("button", name="Use it").click()
    page.wait_for_selector("#status:has-text('srsf with accept-all decides from now on')")
    assert site.api.get("/v1/policy").json()["policy"] == "srsf"
    assert not site.errors


def test_a_run_is_shown_at_any_moment(site: Site) -> None:
    server = make_server(two_jobs_and_a_late_one(), 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = site.browser.new_context(**DESK).new_page()
    page.on("pageerror", lambda error: site.errors.append(str(error)))
    page.goto(f"http://127.0.0.1:{server.server_address[1]}/dashboard/#/queue")
    page.wait_for_selector("#queue-1:has-text('waiting')")
    page.get_by_label("Moment of the run").fill("900")
    page.wait_for_selector("#queue-0", state="detached")
    assert page.locator("#queue-1").inner_text().split()[-1] == "15s", "its finish"
    for view in ("overview", "timeline", "nodes", "history"):
        page.get_by_role("link", name=view.title(), exact=True).click()
        page.wait_for_selector(f"h1:has-text('{view.title()}')")
        assert not violations(page)
    page.wait_for_selector("#history-0")
    page.get_by_label("Moment of the run").fill("1000")
    page.wait_for_selector("#history-1")
    shown = page.locator("tr[id^=history-]:visible").evaluate_all(
        "rows => rows.map((row) => row.id)"
    )
    assert len(shown) == len(set(shown))
    server.shutdown()
    assert not site.errors


def test_an_array_shows_its_elements_and_a_failed_job_says_so_once(site: Site) -> None:
    submit(site.api, name="sweep", array=2, gpus=1)
    broken = {"command": ["false"], "name": "broken", "retries": 0, "priority": 5, "estimate": 1}
    number = site.api.post("/v1/jobs", json=broken).json()["numbers"][0]
    until(lambda: site.api.get(f"/v1/jobs/{number}").json()["state"] == "failed")
    page = site.page("root", **DESK)
    page.wait_for_selector(".look li:has-text('broken')")  # although nothing changes after it
    site.go(page, "queue")
    page.wait_for_selector("td:has-text('sweep[1]')")
    site.go(page, f"job/{number}")
    page.wait_for_selector("p:has-text('exit code 1')")
    assert page.locator("main").inner_text().lower().count("exit code 1") == 1
    assert page.locator(".lead").inner_text().startswith("Failed ")
    assert not site.errors
    for each in site.api.get("/v1/jobs").json()["jobs"]:
        if each["name"] == "sweep":
            site.api.post(f"/v1/jobs/{each['number']}/cancel")

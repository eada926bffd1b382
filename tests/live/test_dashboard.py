"""The dashboard in a browser: its views as they are shown, on desks and phones, and its tables."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsers import DESK, PHONE, needs_chromium, out_of_reach, overflow, violations
from dashboard_site import Site, dashboard_site, submit

from volvelle.report.charts.palette import DARK, LIGHT

pytestmark = needs_chromium

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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with dashboard_site(tmp_path_factory.mktemp("dashboard")) as found:
        yield found


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


def test_a_job_that_overran_needs_a_look_and_nobody_says_what_share_of_it_is_over(
    site: Site,
) -> None:
    page = site.page("root", **DESK)
    said = page.evaluate(
        """async () => {
  const { answer, progressOf } = await import("/dashboard/answer.js");
  const { needingALook } = await import("/dashboard/overview.js");
  const { now } = await import("/dashboard/dom.js"), at = now();
  const told = { started: at - 100, predicted_p50: at + 100, predicted_p90: at + 900 };
  const job = { state: "running", grants: [["a", [0]]], ...told };
  const of = (end) => {
    const one = { ...job, believed_end: end };
    return [answer(one).join(" "), progressOf(one), needingALook([one], [])];
  };
  return [of(at - 80), of(at - 20), of(at + 10), of(null)];
}"""
    )
    far, little, *others = said
    assert "has run 5.0 times what was believed" in far[0]
    assert "of its time" not in far[0]
    assert far[1:] == [None, 1]
    assert little[1:] == [None, 0]
    assert all("About 50 % of its time is over." in text for text, *_ in others)
    assert [look for *_, look in others] == [0, 0]
    assert not site.errors


def test_the_field_of_the_token_fits_a_phone(site: Site) -> None:
    page = site.browser.new_context(**PHONE).new_page()
    page.goto(site.server.url)
    box = page.get_by_label("Token").bounding_box()
    assert box["x"] >= 8
    assert box["x"] + box["width"] <= PHONE["viewport"]["width"] - 8


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
    head, node = Path(saved.value.path()).read_text().splitlines()[:2]
    assert head == "Node,Type,GPUs,Free,State,Next free,Used in a day,Jobs"
    assert re.fullmatch(r"node-0,GPU,2,0,up,20[^,]*Z,0?\.?\d+,0", node), node
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


def test_a_node_shows_its_gpus_its_jobs_and_when_the_next_comes_free(site: Site) -> None:
    page = site.page("root", **DESK)
    site.go(page, "nodes")
    used, free = (page.locator(".nodes > li", has_text=name) for name in ("node-0", "node-1"))
    assert used.locator(".cells .held").count() == 2
    assert free.locator(".cells .free").count() == 2
    assert re.search(r"2 of 2 in use\s+2 free at \d\d:\d\d", used.inner_text())
    assert "long" in used.locator(".jobs").inner_text()
    page.wait_for_selector("td.of-used:has-text('%')")
    used.locator(".cells a").first.click()
    page.wait_for_selector("h1:has-text('Job 0')")
    assert site.api.post("/v1/nodes/node-1/drain").status_code == 204
    site.go(page, "nodes")
    page.wait_for_selector(".nodes .chip:has-text('draining')")
    assert free.locator(".cells .out").count() == 2
    assert not violations(page)
    assert site.api.post("/v1/nodes/node-1/resume").status_code == 204
    assert not site.errors


def test_the_jobs_of_nodes_are_opened_by_keyboard_although_all_is_drawn_anew(site: Site) -> None:
    page = site.page("root", **DESK)
    for links in (".nodes .jobs a", "td.of-jobs a"):
        site.go(page, "nodes")
        page.wait_for_selector(links)
        page.locator(links).focus()
        page.evaluate("dispatchEvent(new Event('theme'))")
        page.keyboard.press("Enter")
        page.wait_for_selector("h1:has-text('Job 0')")
    stops = page.evaluate(_STOPS)
    assert stops == [f"{job} sum on n{at}" for at in range(13) for job in (1, 2)]
    assert not site.errors


_STOPS = """async () => {
  const { gpuMap } = await import("/dashboard/gpus.js"), root = document.querySelector("main");
  const job = (number, gpus) => ({ number, gpus: 3, name: "sum", user: "lee", grants:
    Array.from({ length: 13 }, (_, at) => [`n${at}`, gpus]) });
  const node = (_, at) => [`n${at}`,
    { name: `n${at}`, gpus: 4, gpu_type: "", state: "up", free: 1, jobs: [] }];
  const nodes = new Map(Array.from({ length: 13 }, node));
  const jobs = new Map([[1, job(1, [0, 2])], [2, job(2, [1])]]);
  gpuMap(root, { unit: "node", nodes, jobs }, () => {}, true).draw();
  const shown = [...root.querySelectorAll(".cells a")].filter((link) => link.tabIndex === 0);
  return shown.map((link) => link.ariaLabel);
}"""
"""What Tab stops at among the cells of more nodes than have lists of their jobs."""


def test_shares_show_who_held_the_gpus_beside_an_even_share(site: Site) -> None:
    page = site.page("root", **DESK)
    site.go(page, "shares")
    page.wait_for_selector("svg.load path.series-3")
    assert page.locator(".legend").inner_text() == "root"
    row = page.locator("#users-root")
    assert row.locator(".of-fair").inner_text() == "4", "of one user"
    assert row.locator(".bar .mark").count() == 1
    assert not violations(page)
    assert page.evaluate(_LAYERS) == [["held", 4], ["series-4", 3], ["series-3", 2]]
    assert not site.errors


_LAYERS = """async () => {
  const { loadChart } = await import("/dashboard/load.js"), now = Date.now() / 1000;
  const span = (user, start, ...gpus) => ({ user, start, end: now + 1, grants: [["n0", gpus]] });
  const spans = [span("lee", now - 9000, 0, 1), span("kim", now - 9000, 2), span("", now - 9000, 3)];
  const cluster = { jobs: new Map(), nodes: new Map([["n0", { gpus: 4 }]]) };
  const colors = new Map([["lee", "series-3"], ["kim", "series-4"]]);
  const [chart] = loadChart([], cluster, 600, 400, { spans, colors });
  document.querySelector("main").append(chart);
  const shown = [...chart.querySelectorAll(".held, .series-3, .series-4")];
  const high = (path) => path.getBBox().height;
  return shown.map((path) => [path.getAttribute("class"), Math.round(4 * high(path) / high(shown[0]))]);
}"""
"""The class of each layer, the uppermost first, and how many of four GPUs high it reaches."""

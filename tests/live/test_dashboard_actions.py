"""The dashboard in a browser: what is asked, submitted and changed there, the timeline, and runs."""

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsers import DESK, PHONE, needs_chromium, violations
from dashboard_runs import two_jobs_and_a_late_one
from dashboard_site import Site, dashboard_site, submit
from waiting import until

from volvelle.dashboard.run_server import make_server

pytestmark = needs_chromium


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


def test_the_timeline_is_left_without_an_error(site: Site) -> None:
    page = site.page("root", **DESK)
    for _ in range(3):
        site.go(page, "timeline")
        page.wait_for_selector(".legend li")
        site.go(page, "nodes")
        page.evaluate("dispatchEvent(new Event('resize'))")
        page.wait_for_timeout(100.0)
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


def test_a_job_is_submitted_after_it_was_asked_about_and_changed(site: Site) -> None:
    page = site.page("dana", **DESK)
    site.go(page, "submit")
    submit_it = page.get_by_role("button", name="Submit it")
    page.get_by_label("Command", exact=True).fill("sleep 600")
    page.get_by_label("Name").fill("asked first")
    page.get_by_label("GPUs", exact=True).fill("4")
    assert submit_it.is_disabled()
    page.get_by_label("Deadline in", exact=True).fill("3h")
    page.wait_for_selector(".answer dt:has-text('Deadline')")
    command = (
        "volvelle submit --gpus 4 --name 'asked first' --estimate 1h --deadline 3h -- sleep 600"
    )
    assert page.get_by_role("region", name="As a command").inner_text() == command
    assert page.get_by_role("region", name="What a deadline would get").is_hidden()
    page.get_by_label("Deadline in", exact=True).fill("")
    page.get_by_role("button", name="A deadline in").last.wait_for()
    page.get_by_label("Takes about").fill("soon")
    page.wait_for_selector(".answer .wrong")
    assert page.get_by_role("heading", name="As a command").is_hidden()
    assert page.get_by_role("heading", name="What a deadline would get").is_hidden()
    site.errors.clear()  # the answer that says what is wrong
    page.get_by_label("Takes about").fill("1h")
    page.get_by_role("heading", name="As a command").wait_for()
    page.get_by_role("button", name="A deadline in").last.click()
    page.wait_for_selector(".answer dt:has-text('Deadline')")
    assert not violations(page)
    page.get_by_role("button", name="Submit it", disabled=False).click()
    page.wait_for_selector("h1:has-text('asked first')")
    number = int(page.url.rpartition("/")[2])
    request = page.locator("section", has=page.get_by_role("heading", name="Request"))
    page.wait_for_selector("dt:has-text('Takes about')")
    assert "Takes about\n1h 00m" in request.inner_text()
    request.get_by_role("button", name="Copy: As a command").click()
    page.wait_for_selector("#status:has-text('As a command: ')")
    request.get_by_text("As a job's file").first.click()
    assert json.loads(request.locator("details pre").inner_text())["gpus"] == 4
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
    form = page.locator("section:has(form)", has_text="Yesterday, under another policy")
    form.get_by_label("Under policy").fill("srsf")
    form.get_by_role("button", name="Ask").click()
    page.wait_for_selector("caption:has-text('As it was')")
    assert page.get_by_role("row", name="Mean completion time").get_by_role("cell").count() == 4
    assert not violations(page)
    assert not site.errors


def test_a_question_to_begin_with_is_asked_by_a_click(site: Site) -> None:
    page = site.page("root", **DESK)
    site.go(page, "whatif")
    page.wait_for_selector("h2:has-text('As things are')")
    page.get_by_role("button", name="Ask: Twice the nodes").click()
    page.wait_for_selector("caption:has-text('Effect')")
    assert page.get_by_label("More nodes").input_value() == "2"
    row = page.get_by_role("row", name="Mean time until jobs finish")
    before, after = (bar.bounding_box()["width"] for bar in row.locator("rect").all())
    assert after < before
    assert not violations(page)
    assert not site.errors


COMMANDS = """
async () => {
  const { commandOf } = await import("/dashboard/request.js");
  const [command, gpus] = [["python", "my train.py"], 2];
  const jobs = [
    { command, gpus, gpu_types: ["a100", "h100"], preemptible: false, time_limit: 5400,
      array: 8, at_once: 2 },
    { command, environment: { A: "b c" }, setup: [["pip", "install", "x"]],
      deadline: { kind: "soft", within: 90 } },
    { command: ["sh", "-c", "cd x && python train.py"], checkpoint: { takes: 1 }, upload: "0a" },
    { command, secrets: { KEY: "" }, checkpoint: { path: "saved", grace: 60 },
      after: [{ job: 12, end: "any" }, { job: 20, count: 3, each: true }] },
    { command: ["sh", "-c", "python train.py"] },
  ];
  return jobs.map(commandOf);
}
"""


def test_a_request_is_written_as_the_command_that_submits_it(site: Site) -> None:
    found = site.page("root", **DESK).evaluate(COMMANDS)
    assert found == [
        [
            "volvelle submit --gpus 2 --gpu-type a100 --gpu-type h100 --no-preempt --time-limit 90m"
            " --array 8%2 -- python 'my train.py'",
            [],
        ],
        [
            "volvelle submit --env 'A=b c' --setup 'pip install x' --deadline 90s --soft"
            " -- python 'my train.py'",
            [],
        ],
        ["volvelle submit -- sh -c 'cd x && python train.py'", ["checkpoint", "upload"]],
        [
            "volvelle submit --secret KEY --checkpoint saved --grace 1m --after 12:any --after 20-22:each"
            " -- python 'my train.py'",
            [],
        ],
        ["volvelle submit -- python train.py", []],
    ]


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


def test_a_phone_has_a_row_for_each_job_and_opens_it_by_a_second_tap(site: Site) -> None:
    page = site.page("root", **PHONE)
    site.go(page, "timeline")
    page.wait_for_selector(".legend li")
    assert page.locator("[name=rows]").input_value() == "jobs"
    box = page.locator("canvas").bounding_box()
    place = {"x": box["width"] / 2, "y": 28}  # the first row
    page.locator("canvas").tap(position=place)
    page.wait_for_selector(".tip:has-text('GPU')")
    assert page.url.endswith("#/timeline")
    page.locator("canvas").tap(position=place)
    page.wait_for_selector("h1:has-text('Job ')")
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

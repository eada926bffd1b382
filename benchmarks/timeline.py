"""An update of the timeline: python benchmarks/timeline.py [--jobs 20000] [--nodes 1000] [--past 20000]

No server: the page's own files, with a cluster of so many jobs, nodes and past holdings of GPUs, in headless
Chromium. Every job's forecast moves before each update. Prints the processor time of the main thread for one,
drawing included; on a busy machine the least of several is what it costs. Needs Playwright, and a Chromium on
the PATH.
"""

import argparse
import json
import shutil
from urllib.parse import urlsplit

from playwright.sync_api import CDPSession, Page, Route, sync_playwright

from volvelle.dashboard.page import page_file

ORIGIN = "http://timeline.test"
PAGE = """<!doctype html><title>Timeline</title>
<link rel=stylesheet href=/dashboard/theme.css>
<link rel=stylesheet href=/dashboard/report/report.css>
<link rel=stylesheet href=/dashboard/dashboard.css>
<main id=main></main>
<script src=/dashboard/report/report.js></script>
<script src=/dashboard/report/gantt_marks.js></script>
<script src=/dashboard/report/gantt_controls.js></script>
<script src=/dashboard/report/gantt.js></script>
<script type=module src=/cluster.js></script>
"""
CLUSTER = """
import { timeline } from "/dashboard/timeline.js";
const size = %s, now = Date.now() / 1000, real = performance.now.bind(performance);
const cluster = { jobs: new Map(), nodes: new Map(), past: [], loads: 0, time: now };
for (let at = 0; at < size.nodes; at++) {
  cluster.nodes.set(`node-${at}`, { name: `node-${at}`, gpus: 8, gpu_type: "", state: "up", free: 0 });
}
let lane = 0, later = 0;
for (let number = 0; number < size.jobs; number++) {
  const array = Math.floor(number / 100), gpus = 2 ** (array %% 4);
  const seconds = 600 * (1 + 7 * array %% 59);
  const job = { number, name: `train-${array}`, user: `user-${array %% 10}`, gpus, submitted: now - 300,
    state: "waiting", started: null, grants: [], predicted_start: now + 20 * (number * 7919 %% size.jobs),
  };
  if (lane + gpus <= 8 * size.nodes) {
    const on = Array.from({ length: gpus }, (_, at) => (lane + at) %% 8);
    const grants = [[`node-${Math.floor(lane / 8)}`, on]];
    Object.assign(job, { state: "running", started: now - 200, grants });
    lane += gpus;
  }
  job.predicted_p50 = (job.started ?? job.predicted_start) + seconds;
  cluster.jobs.set(number, job);
}
const holdings = Array.from({ length: size.past }, (_, at) =>
  [-1, "", "", now - 7200 + at %% 3600, now - 3600 + at %% 3600, [[`node-${at %% size.nodes}`, [at %% 8]]]]);
window.fetch = async () => new Response(JSON.stringify({ holdings }));
performance.now = () => real() + 11000 * later; // it draws anew after ten seconds
const view = timeline(document.getElementById("main"), { cluster, session: {}, go: () => {} });
window.update = () => new Promise((done) => {
  for (const job of cluster.jobs.values()) job.predicted_p50 += 1;
  later += 1;
  view.update();
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 300)));
});
"""


def answer(route: Route, size: dict[str, int]) -> None:
    """The page's own files, and the cluster."""
    path = urlsplit(route.request.url).path
    if path == "/":
        route.fulfill(body=PAGE, content_type="text/html")
    elif path == "/cluster.js":
        route.fulfill(body=CLUSTER % json.dumps(size), content_type="text/javascript")
    elif (file := page_file(path.removeprefix("/dashboard/"))) is not None:
        route.fulfill(body=file.body, content_type=file.media_type)
    else:
        route.fulfill(status=404)


def updates(page: Page, session: CDPSession, times: int) -> list[float]:
    """Milliseconds of the main thread's processor time for each of so many updates."""

    def busy() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))

    took = []
    for _ in range(times):
        before = busy()
        page.evaluate("update()")
        took.append(1e3 * (busy() - before))
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--past", type=int, default=20_000, help="holdings that are over")
    parser.add_argument("--times", type=int, default=15)
    given = vars(parser.parse_args())
    times = given.pop("times")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.route(f"{ORIGIN}/**", lambda route: answer(route, given))
        page.goto(ORIGIN)
        page.wait_for_selector(".legend li")
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        took = sorted(updates(page, session, times))
        print(f"{took[0]:.0f} ms least, {took[len(took) // 2]:.0f} median, {took[-1]:.0f} most")
        browser.close()


if __name__ == "__main__":
    main()

"""The dashboard of a large cluster: python benchmarks/dashboard.py [--jobs 20000] [--nodes 1000]

A server with simulated agents (benchmarks/serve_load.py) and so many jobs, of ten users. Prints when headless
Chromium paints first and shows the rows of each view, how long its main thread is busy with an update while
jobs come, go and are forecast anew, and the server's processor time with and without viewers. Needs
Playwright, and a Chromium on the PATH.
"""

import argparse
import asyncio
import json
import shutil
import statistics
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from playwright.sync_api import Page, sync_playwright
from serve_load import Server

VIEWS = ("overview", "queue", "timeline", "nodes", "shares", "whatif")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run")
QUIET = ("--disable-background-networking", "--disable-component-update", "--disable-sync")
_USERS = 10
_ARRAY = 100
_PATIENCE_SECONDS = 300.0
_OBSERVE = """
window.tasks = [];
new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((each) => each.duration)))
  .observe({ type: "longtask", buffered: true });
"""
_PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"
_SHOWN = "() => performance.getEntriesByName('shown')[0]?.startTime ?? null"
_MEASURES = (
    "() => performance.getEntriesByType('measure').map((each) => [each.name, each.duration])"
)


def fill(server: Server, jobs: int) -> None:
    """Submit jobs of ten users, of one to eight GPUs and ten minutes to ten hours."""
    with httpx.Client(base_url=server.url, headers=server.headers, timeout=60.0) as root:
        made = [root.post("/v1/tokens", json={"user": f"user-{at}"}) for at in range(_USERS)]
        for at in range(jobs // _ARRAY):
            token = made[at % _USERS].json()["token"]
            body = {
                "name": f"train-{at}", "command": ["true"], "array": _ARRAY,
                "gpus": 2 ** (at % 4), "estimate": 600 * (1 + 7 * at % 59),
            }  # fmt: skip
            headers = {"Authorization": f"Bearer {token}"}
            root.post("/v1/jobs", json=body, headers=headers).raise_for_status()


def wait_for_forecasts(server: Server) -> float:
    """Seconds until every job has one."""
    began = time.monotonic()
    while time.monotonic() - began < _PATIENCE_SECONDS:
        found = httpx.get(f"{server.url}/v1/queue", headers=server.headers, timeout=60.0).json()
        at = found["job_columns"].index("predicted_p50")
        if all(row[at] is not None for row in found["jobs"]):
            return time.monotonic() - began
        time.sleep(2.0)
    raise SystemExit("error: the jobs are not forecast")


class Traffic(threading.Thread):
    """Two jobs a second are submitted, and as many cancelled, until it is stopped."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self._server = server
        self.stopped = threading.Event()

    def run(self) -> None:
        body = {"name": "late", "command": ["true"], "gpus": 1, "estimate": "1h"}
        with httpx.Client(base_url=self._server.url, headers=self._server.headers) as client:
            while not self.stopped.wait(0.5):
                with suppress(httpx.HTTPError):
                    (number,) = client.post("/v1/jobs", json=body).json()["numbers"]
                    client.post(f"/v1/jobs/{max(0, number - 5)}/cancel")


def open_page(page: Page, server: Server, view: str) -> tuple[float, float]:
    """Milliseconds until the first paint, and until the view is there with all jobs and nodes."""
    page.goto("about:blank")
    page.goto(f"{server.url}/dashboard/#/{view}")
    shown = page.wait_for_function(_SHOWN, timeout=60_000).json_value()
    return float(page.evaluate(_PAINTED)), float(shown)


def watch(page: Page, seconds: float) -> None:
    """Print what the main thread did in so many seconds."""
    page.evaluate("performance.clearMeasures()")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})  # processor time

    def busy() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))

    page.evaluate("window.tasks.length = 0")
    before = busy()
    page.wait_for_timeout(1000 * seconds)
    after = busy()
    spans: dict[str, list[float]] = {}
    for name, duration in page.evaluate(_MEASURES):
        spans.setdefault(name, []).append(duration)
    for name, durations in sorted(spans.items()):
        middle, most = statistics.median(durations), max(durations)
        print(f"    {name:24} {len(durations):4} times {middle:8.1f} ms median {most:8.1f} ms most")
    longest = max(page.evaluate("window.tasks"), default=0.0)
    updates = max(len(each) for each in spans.values()) if spans else 1
    print(
        f"    main thread: {1e3 * (after - before) / updates:.1f} ms of processor time an update, "
        f"longest task {longest:.0f} ms (0: none of 50 ms)"
    )


async def view_for(server: Server, viewers: int, seconds: float) -> int:
    """Bytes that so many viewers got in so many seconds."""
    place = urlsplit(server.url)
    lines = [f"{name}: {value}" for name, value in server.headers.items()]
    head = "\r\n".join(("GET /v1/queue/changes HTTP/1.1", f"Host: {place.netloc}", *lines, "", ""))
    received = 0

    async def one() -> None:
        nonlocal received
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        writer.write(head.encode())
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while data := await reader.read(1 << 16):
                    received += len(data)
        writer.close()

    await asyncio.gather(*(one() for _ in range(viewers)))
    return received


def serve_viewers(server: Server, viewers: int, seconds: float) -> None:
    """Print the server's processor time with and without viewers."""
    shares: dict[int, list[float]] = {}
    for count in (0, viewers, 0, viewers):
        before, began = server.cpu_seconds(), time.perf_counter()
        received = asyncio.run(view_for(server, count, seconds)) if count else 0
        if not count:
            time.sleep(seconds)
        used = 100 * (server.cpu_seconds() - before) / (time.perf_counter() - began)
        shares.setdefault(count, []).append(used)
        print(f"{count:4} viewers: {used:5.1f} % of a core, {received / 1e6 / seconds:.2f} MB/s")
    cost = statistics.mean(shares[viewers]) - statistics.mean(shares[0])
    print(f"{viewers} viewers cost {cost:.1f} % of a core")


def log_in(page: Page, server: Server) -> None:
    token = server.headers["Authorization"].removeprefix("Bearer ")
    page.goto(f"{server.url}/dashboard/")
    page.get_by_label("Token").fill(token)
    page.keyboard.press("Enter")
    page.wait_for_selector("nav a", timeout=60_000)


def browse(server: Server, seconds: float) -> None:
    """Open each view three times, and watch it for so many seconds."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=[*FLAGS, *QUIET]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.add_init_script(_OBSERVE)
        log_in(page, server)
        page.evaluate("() => localStorage.setItem('volvelle.queue.sort', '\"-p50\"')")
        for view in VIEWS:
            opened = [open_page(page, server, view) for _ in range(3)]
            painted, shown = (min(times) for times in zip(*opened, strict=True))
            print(f"{view}: first paint {painted:.0f} ms, shown {shown:.0f} ms")
            watch(page, seconds)
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--viewers", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=30.0, help="that each part is watched")
    parser.add_argument("--policy", default="srsf")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder), given.nodes, given.policy, "--run-seconds", "1e9")
        traffic = Traffic(server)
        try:
            fill(server, given.jobs)
            print(f"all of them forecast after {wait_for_forecasts(server):.0f} s")
            began = time.perf_counter()
            table = httpx.get(f"{server.url}/v1/queue", headers=server.headers, timeout=60.0)
            took = time.perf_counter() - began
            found = json.loads(table.content)
            print(f"{len(found['jobs']):,} jobs, {len(found['nodes']):,} nodes")
            print(f"the table: {len(table.content) / 1e6:.2f} MB, answered in {1e3 * took:.0f} ms")
            traffic.start()
            browse(server, given.seconds / 2)
            serve_viewers(server, given.viewers, given.seconds)
        finally:
            traffic.stopped.set()
            server.end()


if __name__ == "__main__":
    main()

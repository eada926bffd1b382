"""The pictures of README.md and docs/, made by our own reports and dashboard: python docs/make_pictures.py.

Pages are photographed on a desk and on a phone, light and dark, which needs Playwright and a Chromium on the
PATH. All of it takes three minutes.
"""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from PIL import Image

PICTURES = Path(__file__).resolve().parent / "pictures"

RECORDING = PICTURES.parents[1] / "examples" / "slurm-recording"

COLOURS = 64
"""Enough for flat charts with smooth edges."""

MANY_COLOURS = 256
"""For pages, on which pale and full colours of several series are side by side."""

DEMO = ["compare", "--demo"]
SMALL = ["simulate", "--generate", "lognormal:jobs=60", "--cluster", "4x8", "--policy", "srsf"]
SMALL += ["--placement", "consolidated"]
SEARCH = ["tune", "--generate", "lognormal:jobs=400", "--cluster", "4x8", "--candidates", "64"]
SEARCH += ["--samples", "2", "--jobs", "100"]

SCREENS: dict[str, dict[str, Any]] = {
    "desk": {"viewport": {"width": 1280, "height": 800}},
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True},
}
SCHEMES = ("light", "dark")
VIEWS = (
    *("overview", "queue", "timeline", "job", "submit"),
    *("nodes", "shares", "history", "whatif", "policies"),
)
SHOWN = {"dashboard-overview": "svg.load .was", "dashboard-job": "svg.load .band"}
"""What is awaited of pages that ask for more once they are open."""
BUSY_SECONDS = 120.0
"""After which jobs of the demo ran, run and wait."""


def main() -> None:
    """Run the demo, a small placed run and a busy server, and keep pictures of them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for command, out in ((DEMO, folder / "demo"), (SMALL, folder / "run")):
            volvelle = Path(sys.executable).with_name("volvelle")
            subprocess.run([volvelle, *command, "--out", out, "--png"], check=True)
        _keep(folder / "demo" / "jct_cdf.png", "demo-completion-times.png", scale=2 / 3)
        _keep(folder / "demo" / "queue.png", "demo-queues.png", scale=2 / 3)
        _keep(folder / "run" / "gantt.png", "who-held-the-gpus.png", scale=2 / 3)
        reports = {
            f"report-{made}": (folder / made / "report.html").as_uri() for made in ("demo", "run")
        }
        with _busy_server(folder) as (url, token, job):
            views = {
                f"dashboard-{view}": f"{url}/dashboard/#/{view}{f'/{job}' if view == 'job' else ''}"
                for view in VIEWS
            }
            _photograph(views | reports, folder, url, token)
        attached(folder)


def attached(folder: Path) -> None:
    """Keep pictures of the recorded Slurm as attach shows it, at the end of its recording."""
    from volvelle.incumbents.attach.attached import AttachedCluster  # noqa: PLC0415 - takes long
    from volvelle.incumbents.attach.recording import recorded  # noqa: PLC0415
    from volvelle.incumbents.attach.server import api  # noqa: PLC0415
    from volvelle.incumbents.attach.session import Session  # noqa: PLC0415
    from volvelle.incumbents.slurm.ask import Slurm  # noqa: PLC0415
    from volvelle.live.config import Listen  # noqa: PLC0415
    from volvelle.live.serving import run_reader  # noqa: PLC0415

    record, cluster = folder / "record", AttachedCluster()
    shutil.copytree(RECORDING, record)
    session = Session(Slurm(), record, recorded(record), cluster.take)
    waiting = next(job for job in cluster.status.jobs.values() if "Dependency" in job.reason)

    def photograph(url: str) -> None:
        views = ("queue", f"job/{waiting.number}", "whatif")
        pages = {
            f"attached-{view.partition('/')[0]}": f"{url}/dashboard/#/{view}" for view in views
        }
        _photograph(pages, folder, url, (record / "token").read_text().strip(), cluster.status.time)
        signal.raise_signal(signal.SIGTERM)

    def ready(url: str) -> None:
        threading.Thread(target=photograph, args=(url,)).start()

    run_reader(record, Listen(port=0), api(session, cluster), lambda: cluster.health, ready)
    session.close()


@contextmanager
def _busy_server(folder: Path) -> Iterator[tuple[str, str, int]]:
    """A server on which jobs of three users ran, run and wait (``volvelle serve --demo``).

    Its URL, a token, and the number of a job that waits for another.
    """
    volvelle = Path(sys.executable).with_name("volvelle")
    command = [str(volvelle), "serve", "--demo", "--port", "0"]
    server = subprocess.Popen(
        [*command, "--folder", str(folder / "serve")], stdout=subprocess.DEVNULL
    )
    try:
        address = folder / "serve" / "server.json"
        while not address.exists():
            time.sleep(0.1)
        url = str(json.loads(address.read_text())["url"])
        root = (folder / "serve" / "token").read_text().strip()
        subprocess.run(
            [volvelle, *SEARCH, "--out", folder / "serve" / "fronts" / "week"], check=True
        )
        time.sleep(BUSY_SECONDS)
        with httpx.Client(base_url=url, headers=_bearer(root), timeout=30.0) as client:
            yield url, root, _submit_last(client)
    finally:
        server.terminate()
        server.wait()


def _submit_last(client: httpx.Client) -> int:
    """The number of a job that waits for the end of another, the last in the queue."""
    active = client.get("/v1/jobs").json()["jobs"]
    waiting = [job for job in active if job["state"] == "waiting"]
    last = max(waiting, key=lambda job: job["predicted_start"] or 0.0)["number"]
    job = {
        "name": "evaluate", "command": ["sleep", "60"], "estimate": "1m", "time_limit": "10m",
        "after": [f"{last}:any"], "deadline": {"kind": "soft", "within": "2h"},
    }  # fmt: skip
    number: int = client.post("/v1/jobs", json=job).json()["numbers"][0]
    return number


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _photograph(
    pages: Mapping[str, str], folder: Path, url: str, token: str, now: float | None = None
) -> None:
    """Keep pictures of ``pages``, URLs by name, on all screens, in the session of ``token``.

    now: the time that the browser shows, where it is not the present.
    """
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only pictures need it

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for screen, settings in SCREENS.items():
            page = browser.new_page(**settings)
            if now is not None:
                page.clock.set_system_time(datetime.fromtimestamp(now, UTC))
            page.goto(url)
            page.get_by_label("Token").fill(token)
            page.keyboard.press("Enter")
            page.wait_for_selector("nav a")
            for name, address in pages.items():
                page.goto(address)
                page.wait_for_timeout(1500.0)
                if name in SHOWN:
                    page.wait_for_selector(SHOWN[name], state="attached")
                if name == "dashboard-timeline" and screen == "desk":
                    page.get_by_role("button", name="Show everything").click()
                if name == "dashboard-policies":
                    page.get_by_label("Kept by the server").select_option("week")
                if name == "dashboard-whatif":
                    page.get_by_role("button", name="Ask: One node more").click()
                    page.wait_for_selector("caption:has-text('Effect')")
                if name == "attached-whatif":
                    page.get_by_role("button", name="Ask: A node more").click()
                    page.wait_for_selector("caption:has-text('By user')")
                for scheme in SCHEMES:
                    page.emulate_media(color_scheme=scheme)
                    page.wait_for_timeout(500.0)
                    page.screenshot(path=folder / "page.png")
                    _keep(folder / "page.png", f"{name}-{screen}-{scheme}.png", MANY_COLOURS)
        browser.close()


def _keep(picture: Path, name: str, colours: int = COLOURS, scale: float = 1.0) -> None:
    """Store a picture with few colours, ``scale`` times as large."""
    with Image.open(picture) as image:
        size = (round(image.width * scale), round(image.height * scale))
        small = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    small.quantize(colours, dither=Image.Dither.NONE).save(PICTURES / name, optimize=True)


if __name__ == "__main__":
    main()

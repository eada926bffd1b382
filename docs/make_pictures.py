"""The pictures of README.md and docs/, made by our own reports and dashboard: python docs/make_pictures.py.

Those of the dashboard need Playwright and a Chromium on the PATH, and take two minutes.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from PIL import Image

PICTURES = Path(__file__).resolve().parent / "pictures"

COLOURS = 64
"""Enough for flat charts with smooth edges."""

MANY_COLOURS = 256
"""For pages, on which pale and full colours of several series are side by side."""

DEMO = ["compare", "--demo"]
SMALL = ["simulate", "--generate", "lognormal:jobs=60", "--cluster", "4x8", "--policy", "srsf"]
SMALL += ["--placement", "consolidated"]


def main() -> None:
    """Run the demo and a small placed run, and keep three of their pictures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for command, out in ((DEMO, folder / "demo"), (SMALL, folder / "run")):
            volvelle = Path(sys.executable).with_name("volvelle")
            subprocess.run([volvelle, *command, "--out", out, "--png"], check=True)
        _keep(folder / "demo" / "jct_cdf.png", "demo-completion-times.png")
        _keep(folder / "demo" / "queue.png", "demo-queues.png")
        _keep(folder / "run" / "gantt.png", "who-held-the-gpus.png")
        with _busy_server(folder) as (url, token, job):
            _photograph(url, token, folder, job)
        for view in VIEWS:
            _keep(folder / f"{view}.png", f"dashboard-{view}.png", MANY_COLOURS)


VIEWS = ("overview", "queue", "timeline", "job")
USERS = ("dana", "kim", "lee")
NAMES = ("bert", "resnet50", "gpt-small", "t5", "whisper")


@contextmanager
def _busy_server(folder: Path) -> Iterator[tuple[str, str, int]]:
    """A server of four nodes on which jobs of three users ran, run and wait.

    Its URL, a token, and the number of a job that waits for another.
    """
    volvelle = Path(sys.executable).with_name("volvelle")
    command = [str(volvelle), "serve", "--cluster", "4x8", "--policy", "srsf", "--port", "0"]
    server = subprocess.Popen(
        [*command, "--folder", str(folder / "serve")], stdout=subprocess.DEVNULL
    )
    try:
        address = folder / "serve" / "server.json"
        while not address.exists():
            time.sleep(0.1)
        url = str(json.loads(address.read_text())["url"])
        root = (folder / "serve" / "token").read_text().strip()
        numbers = _submit_jobs(url, root)
        time.sleep(75.0)
        yield url, root, numbers[-1]
        with httpx.Client(base_url=url, headers=_bearer(root), timeout=30.0) as client:
            for number in numbers:
                client.post(f"/v1/jobs/{number}/cancel")
        time.sleep(5.0)
    finally:
        server.terminate()
        server.wait()


def _submit_jobs(url: str, root: str) -> list[int]:
    """Sixty jobs of one to sixteen GPUs, which sleep for half a minute to ten."""
    numbers: list[int] = []
    with httpx.Client(base_url=url, timeout=30.0) as client:
        for user in USERS:
            made = client.post("/v1/tokens", json={"user": user}, headers=_bearer(root)).json()
            for at in range(20):
                seconds = 20 * (1 + 7 * at % 13) if at % 5 else 600
                job = {
                    "name": NAMES[(at + len(user)) % len(NAMES)], "gpus": 2 ** (at % 5),
                    "command": ["sleep", str(seconds)], "estimate": seconds,
                }  # fmt: skip
                answer = client.post("/v1/jobs", json=job, headers=_bearer(made["token"]))
                numbers += answer.json()["numbers"]
        last = {
            "name": "evaluate", "command": ["sleep", "60"], "estimate": "1m", "time_limit": "10m",
            "after": [f"{numbers[-1]}:any"], "deadline": {"kind": "soft", "within": "2h"},
        }  # fmt: skip
        answer = client.post("/v1/jobs", json=last, headers=_bearer(root))
    return numbers + list(answer.json()["numbers"])


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _photograph(url: str, token: str, folder: Path, job: int) -> None:
    """Pictures of the dashboard's views in ``folder``; of the jobs that of ``job``."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only pictures need it

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1200, "height": 760}, device_scale_factor=1.5)
        page.goto(url)
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
        page.wait_for_selector("nav a")
        for view in VIEWS:
            page.goto(f"{url}/dashboard/#/{view}{f'/{job}' if view == 'job' else ''}")
            page.wait_for_timeout(1500.0)
            if view == "timeline":
                page.get_by_role("button", name="Show everything").click()
                page.wait_for_timeout(500.0)
            page.screenshot(path=folder / f"{view}.png")
        browser.close()


def _keep(picture: Path, name: str, colours: int = COLOURS) -> None:
    """Store a picture with few colours and two thirds of its size."""
    with Image.open(picture) as image:
        size = (image.width * 2 // 3, image.height * 2 // 3)
        small = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    small.quantize(colours, dither=Image.Dither.NONE).save(PICTURES / name, optimize=True)


if __name__ == "__main__":
    main()

"""The dashboard of an attached Kueue in a browser: its own words, and changes of its quotas."""

from pathlib import Path

from attached_server import AttachedServer
from browsers import PHONE, chromium, needs_chromium, overflow, violations
from simulated_kueue import SimulatedKueue

from volvelle.incumbents.kueue.attach import incumbent

pytestmark = needs_chromium
SLURMS = ("Slurm", "artition", "QOS", "Site tells", "no start")


def test_pages_speak_of_queues_classes_and_flavours(tmp_path: Path) -> None:
    attached = AttachedServer(SimulatedKueue(2, 600.0, load=1.3), incumbent(), tmp_path)
    for _ in range(20):
        attached.session.step()
    jobs = attached.client().get("/v1/jobs", params={"state": "waiting"}).json()["jobs"]
    errors: list[str] = []
    with attached.served() as url, chromium() as browser:
        page = browser.new_context(**PHONE).new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(url)
        page.fill("input[type=password]", attached.tokens["root"])
        page.keyboard.press("Enter")
        page.wait_for_selector("[role=note]")
        for view, shown in (
            ("overview", "Kueue of laboratory decides"),
            ("nodes", "2 flavours"),
            (f"job/{jobs[0]['number']}", "Local queue, queue"),
            ("queue", "Queue"),
        ):
            page.goto(f"{url}/dashboard/#/{view}")
            page.wait_for_selector(f"main:has-text('{shown}')")
            assert not [word for word in SLURMS if word in page.inner_text("body")]
        page.goto(f"{url}/dashboard/#/whatif")
        page.wait_for_selector("li:has-text('A node more')")
        page.fill("textarea", "ClusterQueue=vision nominalQuota=48 flavor=a100")
        page.click("main form button:has-text('Ask')")
        page.wait_for_selector("caption:has-text('By queue')")
        assert overflow(page) == 0
        assert not violations(page)
    attached.session.close()
    assert not errors

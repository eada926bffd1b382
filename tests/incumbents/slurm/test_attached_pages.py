"""The dashboard of an attached cluster in a browser: the pages that read, and no button that changes."""

from pathlib import Path

from attached_server import AttachedServer
from browsers import DESK, chromium, needs_chromium, violations
from slurm_runs import RecordedSlurm

from volvelle.incumbents.slurm.attach import incumbent

pytestmark = needs_chromium


def test_pages_show_what_only_slurm_knows_and_change_nothing(shared: Path, tmp_path: Path) -> None:
    run = RecordedSlurm(shared / "golden" / "slurm" / "run1")
    attached = AttachedServer(run, incumbent(), tmp_path)
    for _ in range(25):
        attached.session.step()
    errors: list[str] = []
    with attached.served() as url, chromium() as browser:
        page = browser.new_context(**DESK).new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.extend([said.text] * (said.type == "error")))
        page.goto(url)
        page.fill("input[type=password]", attached.tokens["root"])
        page.keyboard.press("Enter")
        page.wait_for_selector("nav a")
        names = [link.inner_text().split("\n")[0] for link in page.query_selector_all("nav a")]
        assert names == ["Overview", "Queue", "Timeline", "Nodes", "Shares", "History", "What if"]
        jobs = {one["number"]: one for one in attached.client().get("/v1/jobs").json()["jobs"]}
        waiting = next(one for one in jobs.values() if one["attached"]["start"] is not None)
        for view in ("overview", "queue", "timeline", "nodes", "shares", "history", "whatif"):
            page.goto(f"{url}/dashboard/#/{view}")
            page.wait_for_selector("[role=note]")
            assert "Slurm 26.05.5 of spike decides" in page.inner_text("[role=note]")
            assert not violations(page)
            buttons = {button.inner_text() for button in page.query_selector_all("main button")}
            assert not buttons & {"Cancel", "Hold", "Release", "Drain", "Resume"}
        page.goto(f"{url}/dashboard/#/queue")
        page.wait_for_selector("tr[id] td a")
        heads = [head.inner_text() for head in page.query_selector_all("th")]
        assert {"Partition", "QOS", "Start P90", "Site tells"} <= set(heads)
        assert "6_0" in page.inner_text("main")
        page.goto(f"{url}/dashboard/#/job/{waiting['number']}")
        page.wait_for_selector("dt")
        assert waiting["attached"]["reason"] in page.inner_text("dl")
        page.wait_for_selector(f'main:has-text("{waiting["reason"]}")')
        page.goto(f"{url}/dashboard/#/whatif")
        page.click("main button[aria-label='Ask: A node more']")
        assert "NodeName=" in page.input_value("textarea")
        page.wait_for_selector("caption:has-text('By user')")
        assert "Quick to slow jobs" in page.inner_text("main")
        assert not violations(page)
    attached.session.close()
    assert not errors

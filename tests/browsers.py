"""Chromium for tests of pages: skipped with a sentence where there is none."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on the PATH")

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run")
QUIET = ("--disable-background-networking", "--disable-component-update", "--disable-sync")
DESK: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"}
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 800},
    "color_scheme": "dark",
    "has_touch": True,
}

_REACHABLE = """() => {
  const usable = "a[href], button, input, select, summary, [tabindex]";
  const shown = [...document.querySelectorAll(usable)].filter((each) => !each.disabled
    && each.tabIndex >= 0 && each.checkVisibility() && each.getClientRects().length);
  return shown.filter((each) => !each.dataset.reached).map((each) => each.outerHTML.slice(0, 120));
}"""
_FORGET = (
    "for (const each of document.querySelectorAll('[data-reached]')) delete each.dataset.reached"
)
_AT = """() => {
  const at = document.activeElement;
  if (at === document.body) return false;
  const seen = at.dataset.reached;
  at.dataset.reached = "yes";
  return !seen;
}"""


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser without a window."""
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, *QUIET])
        yield browser
        browser.close()


def violations(page: Any) -> str:
    """What axe finds wrong with a page, in words; "" where nothing is."""
    found = axe.Axe().run(page)
    return found.generate_report() if found.response["violations"] else ""


def out_of_reach(page: Any, most: int = 400) -> list[str]:
    """Elements that can be used, and that ``most`` presses of Tab from where the page stands do not reach."""
    page.evaluate(_FORGET)
    misses = 0
    for _ in range(most):
        page.keyboard.press("Tab")
        misses = 0 if page.evaluate(_AT) else misses + 1
        if misses == 12:  # round once; an input of a date has seven places of its own
            break
    found: list[str] = page.evaluate(_REACHABLE)
    return found


def overflow(page: Any) -> int:
    """CSS pixels by which the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))

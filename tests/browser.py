"""A real browser for pages: Chromium without a window."""

import html
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-logging=stderr",
    "--virtual-time-budget=10000",
)  # fmt: skip

# A window cannot be narrower than 500 pixels, a frame can; what the page became is read from it when it has settled.
FRAME = """<!doctype html><html><body style="margin:0">
<iframe style="width:{width}px;height:{height}px;border:0" srcdoc="{page}"></iframe><pre></pre>
<script>
addEventListener("load", () => setTimeout(() => {{
  const page = document.querySelector("iframe").contentDocument;
  const drawn = [...page.querySelectorAll(".plotly-graph-div")].map((figure) => {{
    const box = figure.getBoundingClientRect();
    const inside = box.right <= {width} + 1 && box.left >= -1 && box.width > 100 && box.height > 50;
    return [figure.id, figure.querySelectorAll("svg.main-svg").length, inside];
  }});
  document.querySelector("pre").textContent = JSON.stringify(
    {{drawn, width: page.documentElement.scrollWidth, title: page.title}});
}}, 3000));
</script></body></html>"""


@dataclass
class Opened:
    """A page as the browser shows it: its figures (drawings in each, and whether it lies inside the page)."""

    figures: dict[str, tuple[int, bool]]
    width: int
    console: list[str]
    title: str


def browser() -> str:
    """Give the browser's path; where there is none the test is skipped and says so, unless one is required."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        message = "no Chromium found: the pages were not opened in a browser"
        if os.environ.get("OCGL_BROWSER") == "required":
            pytest.fail(message)
        pytest.skip(message)
    return found


def open_page(page: Path, folder: Path, width: int, height: int = 2000) -> Opened:
    """Open a page at a width; leaves a picture of it, page.png, in the folder."""
    frame = folder / "frame.html"
    frame.write_text(FRAME.format(width=width, height=height, page=html.escape(page.read_text())))
    base = [browser(), *FLAGS, f"--user-data-dir={folder / 'profile'}", f"--window-size={max(width, 500)},{height}"]
    done = _run([*base, "--dump-dom", frame.as_uri()])
    _run([*base, f"--screenshot={folder / 'page.png'}", frame.as_uri()])
    told = re.search(r"<pre>(.*?)</pre>", done.stdout, re.DOTALL)
    assert told and told[1], "the page did not settle"
    found = json.loads(html.unescape(told[1]))
    drawn = {name: (count, inside) for name, count, inside in found["drawn"]}
    return Opened(drawn, found["width"], re.findall(r"CONSOLE.*", done.stderr), found["title"])


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)

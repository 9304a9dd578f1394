"""The dashboard in a real browser, at two widths, light and dark, fed by a real service."""

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from ocgl import class_stream, load_dataset
from ocgl.serving.keys import Keys
from ocgl.serving.play import play
from tests.browser import browser
from tests.serving.load import label, node
from tests.serving.running import Running

pytestmark = pytest.mark.slow
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
MARKUP = "<img src=x onerror=alert(1)><b>bold</b>"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    path = browser()
    with sync_playwright() as running:
        opened = running.chromium.launch(executable_path=path, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("dashboard") / "s"
    options = ("--strategy", "ridge", "--features", "64", "--shadow", "linear,slda")
    with Running(folder, *options) as running:
        play(class_stream(load_dataset("digits"), batch_size=50), running.client, score=False)
        yield running


def opened(chromium: Browser, url: str, width: int, scheme: str) -> tuple[Page, list[str]]:
    page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: wrong.append(request.url) if not request.url.startswith(url) else None)
    page.goto(url)
    page.wait_for_selector("#tiles .tile")
    return page, [text for text in wrong if not text.startswith("data:")]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_the_page_shows_the_service(
    chromium: Browser, served: Running, width: int, scheme: str, tmp_path: Path
) -> None:
    page, wrong = opened(chromium, served.url, width, scheme)
    status = served.client.status()
    page.wait_for_function("document.querySelector('#health').textContent === 'healthy'")
    tiles = page.inner_text("#tiles")
    assert f"{status['nodes']:,}" in tiles and f"{status['edges']:,}" in tiles
    assert page.locator("#strategies tr").count() == 4 and "ridge (answers)" in page.inner_text("#strategies")
    assert page.locator("#classes .bar").count() == len(status["classes"])
    assert page.locator("#cost .bar").count() == 3
    for chart in ("#accuracy", "#rate"):
        box = page.locator(f"{chart} canvas").bounding_box()
        assert box is not None and box["width"] > 250 and box["x"] + box["width"] <= width
    page.fill("#id", "17")
    page.click("#ask button")
    page.wait_for_selector("#drawn svg circle")
    answer = served.client.ask([17])["predictions"][0]["label"]
    assert str(answer) in page.inner_text("#answer")
    assert page.locator("#drawn svg circle").count() > 3
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, background[4:-1].split(","))) < 384) == (scheme == "dark")
    folder = Path(os.environ.get("OCGL_SCREENSHOTS", tmp_path))
    page.screenshot(path=folder / f"dashboard-{width}-{scheme}.png", full_page=True)
    assert wrong == []
    page.close()


def test_names_are_text_and_not_markup(chromium: Browser, tmp_path: Path) -> None:
    with Running(tmp_path / "s", "--strategy", "slda", "--features", "3") as running:
        running.client.send(
            [node(MARKUP), node("b", MARKUP), label(MARKUP, MARKUP), label("b", "y"), {"type": "learn"}]
        )
        page, wrong = opened(chromium, running.url, 1440, "light")
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.fill("#id", MARKUP)
        page.click("#ask button")
        page.wait_for_selector("#drawn svg circle")
        assert MARKUP in page.inner_text("#classes")
        assert page.locator("main img").count() == page.locator("#classes b, #drawn b").count() == 0
        assert page.inner_text("#answer b") in (MARKUP, "y")
        assert wrong == []
        policy = httpx.get(running.url).headers["content-security-policy"]
        assert "default-src 'self'" in policy
        page.close()


def test_a_service_with_keys_asks_for_one(chromium: Browser, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    keys = Keys(folder)
    admin, reader = keys.add("admin", ["admin"]), keys.add("reader", ["predict"])
    with Running(folder, "--strategy", "slda", "--features", "3", key=admin) as running:
        running.client.send([node("a")])
        page = chromium.new_page(viewport={"width": 390, "height": 800})
        page.goto(running.url)
        page.wait_for_selector("#login:not([hidden])")
        assert page.locator("#tiles .tile").count() == 0
        page.fill("#key", reader)
        page.click("#login button")
        page.wait_for_selector("#tiles .tile")
        assert not page.is_visible("#login")
        page.close()

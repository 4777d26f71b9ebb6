"""A real browser for the tests of the console: Debian's Chromium without a window, driven by Playwright.

`.ci/system-packages` installs it.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, expect, sync_playwright

from tests.console.support import Console, Recorded

# A process for conversions takes seconds to start on a machine that is busy.
expect.set_options(timeout=30_000)

CHROMIUM = shutil.which("chromium-headless-shell")
# Without a sandbox, because root has none; text in grey, because pictures are smaller so; with names of other sites.
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-lcd-text", "--host-resolver-rules=MAP *.example 127.0.0.1"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, for a module: Playwright's event loop must not outlive it, for the tests that have their own."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed; on Debian: sudo apt-get install chromium-headless-shell")
    with sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        except Error as error:
            pytest.skip(f"Chromium cannot start: {str(error).partition(chr(10))[0]}")
        yield started
        started.close()


@pytest.fixture
def open_console(browser: Browser) -> Iterator[Callable[..., Console]]:
    """Opens pages of the console. At the end no page may have logged an error or violated its policy."""
    contexts: list[tuple[BrowserContext, Recorded]] = []

    def opened(
        address: str, view: str = "", *, key: str | None = None, scheme: str = "light", width: int = 1000
    ) -> Console:
        context = browser.new_context(
            color_scheme="dark" if scheme == "dark" else "light",
            viewport={"width": width, "height": 720},
            reduced_motion="reduce",
        )
        page = context.new_page()
        page.set_default_timeout(30_000)
        recorded = Recorded(page)
        contexts.append((context, recorded))
        console = Console(page, address.rstrip("/"), recorded)
        if key is not None:
            page.add_init_script(f"sessionStorage.setItem('attachment-gateway.key', {key!r})")
        console.open(view)
        return console

    yield opened
    for context, recorded in contexts:
        with suppress(Error):
            context.close()
        assert recorded.unexpected() == []

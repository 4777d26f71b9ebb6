"""The console in a browser: what a test opens, sees, and finds wrong."""

import json
import os
import re
from pathlib import Path
from typing import Any

from playwright.sync_api import ConsoleMessage, Page, Request

from tests.console.pictures import small_png

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
LARGEST_PICTURE = 60_000
TAKE_PICTURES = "CONSOLE_PICTURES"
"""The environment variable with which the tests take the pictures of docs/console.md anew."""

AXE = Path(__file__).parent / "axe" / "axe.min.js"
_RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
_LOOKS = {"runOnly": ["color-contrast", "target-size"]}
_STATUS = re.compile(r"Failed to load resource: the server responded with a status of (\d+)")


class Recorded:
    """What a page logged, threw and requested. Statuses in `expected` are answers that the test provokes."""

    def __init__(self, page: Page) -> None:
        self.errors: list[str] = []
        self.hosts: set[str] = set()
        self.expected: set[int] = set()
        page.on("console", self._logged)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", self._requested)

    def _logged(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def _requested(self, request: Request) -> None:
        if not request.url.startswith(("blob:", "data:")):
            self.hosts.add(request.url.split("/")[2])

    def unexpected(self) -> list[str]:
        return [error for error in self.errors if not self._is_expected(error)]

    def _is_expected(self, error: str) -> bool:
        match = _STATUS.match(error)
        return match is not None and int(match[1]) in self.expected


class Console:
    """A page of the console at an address of a gateway."""

    def __init__(self, page: Page, address: str, recorded: Recorded) -> None:
        self.page, self.address, self.recorded = page, address, recorded

    def open(self, view: str = "") -> None:
        """Open a view such as "quarantine/5", and wait until something is shown."""
        self.page.goto(f"{self.address}/console/#/{view}")
        self.page.locator("h1").first.wait_for()

    def expect_status(self, *statuses: int) -> None:
        """Say that the test provokes answers with these statuses, which the browser logs."""
        self.recorded.expected |= set(statuses)

    def accessibility_violations(self, *, only_looks: bool = False) -> list[str]:
        """Return what axe-core finds wrong in the page as it is: WCAG 2.2 AA and good practice.

        `only_looks` finds what can differ between colour schemes and widths, in less time.
        """
        if not self.page.evaluate("() => 'axe' in window"):
            self.page.evaluate(AXE.read_text())
        rules = _LOOKS if only_looks else _RULES
        found: dict[str, Any] = self.page.evaluate(f"() => axe.run(document, {json.dumps(rules)})")
        return [f"{one['id']}: {[node['html'][:200] for node in one['nodes']]}" for one in found["violations"]]

    def picture(self, name: str) -> None:
        """Take docs/pictures/console-NAME.png anew, if pictures are to be taken."""
        if os.environ.get(TAKE_PICTURES):
            self.page.evaluate("() => document.activeElement?.blur()")
            picture = small_png(self.page.screenshot(animations="disabled"))
            assert len(picture) < LARGEST_PICTURE, (name, len(picture))
            (PICTURES / f"console-{name}.png").write_bytes(picture)

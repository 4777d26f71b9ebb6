"""The commands that README.md and the pages of docs print."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "helm").glob("*.md")))
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SHELL = ("sh", "bash", "shell")
_PROMPT = "$ "


class Command(NamedTuple):
    """A command as a page prints it, without its prompt, and with its continuation lines."""

    page: str
    text: str

    @property
    def plain(self) -> str:
        """The command without the comment at its end."""
        return re.sub(r"\s+#\s.*$", "", self.text).strip()


def commands() -> Iterator[Command]:
    """Yield all commands of all pages, in their order."""
    for path in PAGES:
        page = str(path.relative_to(ROOT))
        for language, block in _BLOCK.findall(path.read_text()):
            yield from (Command(page, text) for text in _commands(language, block))


def _commands(language: str, block: str) -> Iterator[str]:
    is_shell, joined = language in _SHELL, ""
    for line in block.splitlines():
        if not joined and not is_shell and not line.startswith(_PROMPT):
            continue
        joined += line if joined or is_shell else line.removeprefix(_PROMPT)
        if joined.endswith("\\") or _is_in_quotes(joined):
            joined += "\n"
        elif joined:
            if joined.strip() and not joined.startswith("#"):
                yield joined
            joined = ""


def _is_in_quotes(text: str) -> bool:
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    return False

"""`watch`: show what is being received and sent, live."""

import json
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from app.cli.client import DEFAULT_URL, Client, Url, connect
from app.cli.console import Failure, out, size, state, time

_SHOWN = 20
_LOOK_SECONDS = 0.5

Bar = tuple[str, int, int | None]
"""The contents of a bar: its text, the amount done, and the total (None: unknown)."""


class Board:
    """A display with a bar for everything in progress, and above the bars a line for each event."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}

    def show(self, bars: dict[str, Bar]) -> None:
        """Show exactly these bars; all others are removed."""
        for gone in self._tasks.keys() - bars.keys():
            self._progress.remove_task(self._tasks.pop(gone))
        for key, (text, done, total) in bars.items():
            if key not in self._tasks:
                self._tasks[key] = self._progress.add_task(text, total=total)
            self._progress.update(self._tasks[key], description=text, completed=done, total=total)

    def say(self, event: dict[str, Any]) -> None:
        """Print one event as a line."""
        subject, _, word = event["type"].partition(".")
        data = event["data"]
        about = [str(data[key]) for key in ("name", "destination", "reason", "why") if data.get(key)]
        about += [size(data["size"])] if "size" in data else []
        line = f"[dim]{time(event['time'])}[/] {subject:10} {state(word)} {event['subject']} {escape('  '.join(about))}"
        self._progress.console.print(line, highlight=False)


def watch(url: Url = DEFAULT_URL) -> None:
    """Show attachments being received and deliveries being sent, until Ctrl-C."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with connect(url) as client:
        bars = _bars(client)
        news: SimpleQueue[dict[str, Any] | Failure] = SimpleQueue()
        Thread(target=_listen, args=(client, news), daemon=True).start()
        with Progress(*columns, console=out) as progress:
            board = Board(progress)
            try:
                while True:
                    board.show(bars)
                    for event in _waiting(news):
                        board.say(event)
                    bars = _bars(client)
            except KeyboardInterrupt:
                return


def events(client: Client) -> Iterator[dict[str, Any]]:
    """Yield new events, as CloudEvents."""
    with client.stream("events") as response:
        for line in response.iter_lines():
            if line.startswith("data:"):
                yield json.loads(line.removeprefix("data:"))


def _listen(client: Client, news: "SimpleQueue[dict[str, Any] | Failure]") -> None:
    try:
        for event in events(client):
            news.put(event)
        news.put(Failure("the gateway has ended the connection"))
    except Failure as failure:
        news.put(failure)


def _waiting(news: "SimpleQueue[dict[str, Any] | Failure]") -> Iterator[dict[str, Any]]:
    """Yield the events so far; wait a moment for the first one."""
    try:
        item = news.get(timeout=_LOOK_SECONDS)
        while True:
            if isinstance(item, Failure):
                raise item
            yield item
            item = news.get_nowait()
    except Empty:
        return


def _bars(client: Client) -> dict[str, Bar]:
    bars: dict[str, Bar] = {}
    for item in client.pages("attachments", _SHOWN, state="receiving"):
        progress = item["progress"]
        text = f"[cyan]receiving[/] {escape(item['name'] or item['correl_id'])}"
        bars[item["id"]] = (text, progress["parts_received"], progress["parts_expected"])
    for under_way in ("sending", "queued"):
        for item in client.pages("deliveries", _SHOWN, state=under_way):
            names = ", ".join(attachment["name"] for attachment in item["attachments"])
            text = f"{state(under_way)} {escape(names)} [dim]to {escape(item['destination'])}[/]"
            bars[item["id"]] = (text, item["messages_sent"], item["messages_total"])
    return bars

"""`watch`: show what is being received and sent, live."""

import json
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Annotated, Any, TypeVar

import typer
from attachment_gateway_client import AttachmentGatewayError, Event, Problem
from rich.markup import escape
from rich.progress import MofNCompleteColumn, Progress, TaskID, TimeElapsedColumn

from app.cli import interrupt
from app.cli.line_tables import first_digits, without_zeros
from app.cli.rest_client import DEFAULT_URL, Client, Url, as_failure, connect, is_unavailable
from app.cli.terminal import err, is_narrow, out, progress, size, state, time

_SHOWN = 20
_POLL_SECONDS = 0.5
_SOURCES_SECONDS = 2.0
_EVENTS_GONE = "/problems/events-gone"

T = TypeVar("T")

News = SimpleQueue[Event | AttachmentGatewayError]

Bar = tuple[str, int, int | None]
"""The contents of a bar: its text, the amount done, and the total (None: unknown)."""


class ProgressDisplay:
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

    def say(self, event: Mapping[str, Any]) -> None:
        """Print one event as a line, which is cut where the terminal is too narrow."""
        self._print(event_line(event, is_short=is_narrow(self._progress.console)))

    def note(self, text: str, style: str = "yellow") -> None:
        """Print a remark as a line."""
        self._print(f"[{style}]{escape(text)}[/]")

    def _print(self, line: str) -> None:
        self._progress.console.print(line, highlight=False, no_wrap=True, overflow="ellipsis")


def watch(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print events as CloudEvents, one per line.")] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show attachments being received and deliveries being sent, until Ctrl-C.

    The first line says from which sources the gateway receives. If the gateway does not answer, this waits until
    it answers again, and shows what happened meanwhile.
    """
    signal.signal(signal.SIGTERM, interrupt)  # services are ended by it, and watching has no other end
    try:
        with connect(url) as client:
            bars = _bars(client)
            news: News = SimpleQueue()
            Thread(target=_listen, args=(client, news), daemon=True).start()
            if as_json:
                _print_events(client, news)
            else:
                _show(client, news, bars)
    except KeyboardInterrupt:
        return


def _show(client: Client, news: News, bars: dict[str, Bar]) -> None:
    with progress(out, MofNCompleteColumn, TimeElapsedColumn) as shown:
        board = ProgressDisplay(shown)
        presence, sources = _Availability(board.note), _Sources(client, board.note)
        while True:
            if sources.are_due:
                presence.ask(sources.tell, None)
            board.show(bars)
            for event in _waiting(news):
                board.say(event)
            bars = presence.ask(lambda: _bars(client), {})


def _print_events(client: Client, news: News) -> None:
    presence = _Availability(lambda text: err.print(text, markup=False, highlight=False))
    while True:
        for event in _waiting(news):
            typer.echo(json.dumps(event, ensure_ascii=False))
        presence.ask(lambda: client.get("deliveries", limit=1), None)


class _Availability:
    """Reports, by `note`, when the gateway does not answer, and when it answers again."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note, self._is_unavailable = note, False

    def ask(self, question: Callable[[], T], otherwise: T) -> T:
        """Return the answer to a question to the gateway, or `otherwise` while it does not answer.

        Raises AttachmentGatewayError.
        """
        try:
            answer = question()
        except AttachmentGatewayError as error:
            if not is_unavailable(error):
                raise
            if not self._is_unavailable:
                self._note(f"the gateway does not answer, trying again: {as_failure(error)}")
            self._is_unavailable = True
            return otherwise
        if self._is_unavailable:
            self._note("the gateway answers again")
        self._is_unavailable = False
        return answer


class _Sources:
    """Reports, by `note`, from which sources the gateway receives, and each change."""

    def __init__(self, client: Client, note: Callable[[str, str], None]) -> None:
        self._client, self._note = client, note
        self._shown_sources: dict[str, bool] | None = None
        self._next_poll = 0.0

    @property
    def are_due(self) -> bool:
        """Whether it is time to ask again."""
        return monotonic() >= self._next_poll

    def tell(self) -> None:
        """Ask the gateway. Raises AttachmentGatewayError."""
        self._next_poll = monotonic() + _SOURCES_SECONDS
        listed: Sequence[Mapping[str, Any]] = self._client.get("summary")["sources"]
        sources = [source for source in listed if source["adapter"] is not None]
        connected = {source["name"]: source["connected"] for source in sources}
        if connected == self._shown_sources:
            return
        before, self._shown_sources = self._shown_sources or {}, connected
        if all(connected.values()):
            self._note(f"receiving from {', '.join(connected)}" if connected else "there is no source", "green")
            return
        for source in sources:
            name, error = source["name"], source["error"] or "it is not connected yet"
            if not source["connected"] and before.get(name, True):
                self._note(f"not receiving from {name}: {error}", "yellow")


def event_line(event: Mapping[str, Any], *, is_short: bool) -> str:
    """Return an event as a line with rich's markup. A short line has no date, and a short identifier."""
    subject, _, word = event["type"].partition(".")
    data = event["data"]
    about = [str(data[key]) for key in ("name", "destination", "what", "reason", "why") if data.get(key)]
    about += [size(data["size"])] if "size" in data else []
    moment, identifier = time(event["time"]), event["subject"]
    if is_short:
        shorten = without_zeros if event["type"] == "message.quarantined" else first_digits
        moment, (identifier,) = moment.partition(" ")[2], shorten([identifier])
    text = escape(" ".join("  ".join(about).splitlines()))
    return f"[dim]{moment}[/] {subject:10} {state(word)} {identifier} {text}"


def _listen(client: Client, news: News) -> None:
    """Put all events into a queue.

    The client renews a broken connection. When the catalog was rebuilt or restored, this function starts again.
    """
    while True:
        try:
            for event in client.events(patient=True):
                news.put(event)
        except AttachmentGatewayError as error:
            if not (isinstance(error, Problem) and error.type == _EVENTS_GONE):
                news.put(error)
                return
            err.print("the catalog was rebuilt or restored: events may be missing here", style="yellow")


def _waiting(news: News) -> Iterator[Event]:
    """Yield the events so far; wait a moment for the first one."""
    try:
        item = news.get(timeout=_POLL_SECONDS)
        while True:
            if isinstance(item, AttachmentGatewayError):
                raise item
            yield item
            item = news.get_nowait()
    except Empty:
        return


def _bars(client: Client) -> dict[str, Bar]:
    bars: dict[str, Bar] = {}
    for item in client.pages("attachments", _SHOWN, state="receiving"):
        parts = item["progress"]
        text = f"[cyan]receiving[/] {escape(item['name'] or item['correl_id'])}"
        bars[item["id"]] = (text, parts["parts_received"], parts["parts_expected"])
    for under_way in ("sending", "queued"):
        for item in client.pages("deliveries", _SHOWN, state=under_way):
            names = ", ".join(attachment["name"] for attachment in item["attachments"])
            text = f"{state(under_way)} {escape(names)} [dim]to {escape(item['destination'])}[/]"
            bars[item["id"]] = (text, item["messages_sent"], item["messages_total"])
    return bars

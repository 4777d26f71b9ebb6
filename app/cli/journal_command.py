"""`journal`: import captures as journal segments, list the contents of segments, and continue without a lost one."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from hashlib import file_digest
from pathlib import Path
from re import fullmatch
from time import time_ns
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer
from rich.markup import escape
from rich.progress import DownloadColumn, Progress, TransferSpeedColumn

from app import plugins
from app.capture import hexadecimal, mq_files, qload
from app.capture.capture_entries import LONGEST_MESSAGE, BoundedLine, Entry, Origin, RefusedEntry, SkippedEntry, lines
from app.capture.recognising import FORMATS, LOOKED_AT, recognise
from app.cli.config_command import Config, read
from app.cli.line_tables import ListColumn, ListTable, numbers
from app.cli.terminal import Failure, Yes, bars, confirm, err, out, size
from app.codecs.mqtt.packets import Version
from app.framing.arrivals import ArrivalsBySource
from app.framing.counting import RULE_NAMES
from app.framing.protocol import ArrivalOptions
from app.framing.registry import FRAMINGS, UnknownFraming, default_framing, traits
from app.model.errors import GatewayError
from app.model.message import MAX_ROWS_A_BATCH, PhysicalMessage
from app.model.times import to_time
from app.ports import Journal, JournalArchive

_DESCRIPTOR = ".json"


class CaptureRequest(NamedTuple):
    """The user's description of captures.

    If `format` is None, it is detected; if `framing` is None, it is the usual one of the format. `initial` has the
    source, and the values for fields that are missing in a capture.
    """

    initial: PhysicalMessage
    format: str | None = None
    framing: str | None = None
    version: Version | None = None


class CaptureFiles:
    """A file or a folder of captured messages.

    Raises Failure when it cannot be read, or when path, format and framing are not compatible.
    """

    def __init__(self, path: Path, wanted: CaptureRequest) -> None:
        self.path = path
        self._wanted = wanted
        try:
            self._files = _files(path)
            self.bytes = sum(file.stat().st_size for file in self._files)
            self.format = "raw" if path.is_dir() else wanted.format or _recognised(path)
        except OSError as error:
            raise _unreadable(path, error) from error
        self.framing = wanted.framing or default_framing(self.format)
        self.done = 0
        """Bytes that have been read so far."""

        if path.is_dir() and wanted.format not in (None, "raw"):
            raise Failure(f"{path} is a folder; only message files can be a folder", "name the files in it")
        carried = traits(self.framing)
        if self.format not in carried.captures.formats:
            raise Failure(f"{path}: format {self.format} does not carry framing {self.framing}")
        if self.format == "mqtt" and not carried.needs_descriptor and wanted.version is None:
            raise Failure(
                f"{path}: the MQTT version of a {self.framing} publish cannot be detected",
                "add --mqtt-version 5 or --mqtt-version 3.1.1",
            )

    def identity(self) -> bytes:
        """Return what identifies the capture, for messages that do not state what they belong to; else nothing.

        Raises Failure.
        """
        if not traits(self.framing).numbered_on_arrival:
            return b""
        try:
            with self.path.open("rb") as file:
                return file_digest(file, "sha256").digest()
        except OSError as error:
            raise _unreadable(self.path, error) from error

    def entries(self, now: Callable[[], int]) -> Iterator[tuple[Path, Entry]]:
        """Yield its entries, each with its file; `now` returns µs since 1970. Raises Failure."""
        origin = Origin(self._wanted.initial._replace(framing=self.framing), now, traits(self.framing))
        read = self._file if self.format == "raw" else self._lines
        for file in self._files:
            try:
                for entry in read(file, origin):
                    yield file, entry
            except OSError as error:
                raise _unreadable(file, error) from error

    def _lines(self, path: Path, origin: Origin) -> Iterator[Entry]:
        readers: dict[str, Callable[[Iterable[BoundedLine], Origin], Iterator[Entry]]] = {
            "qload": qload.read,
            "mqtt": partial(hexadecimal.read_mqtt, version=self._wanted.version),
            "rendezvous": hexadecimal.read_rendezvous,
        }
        with path.open("rb") as file:
            for entry in readers[self.format](lines(file), origin):
                self.done = file.tell()
                yield entry

    def _file(self, path: Path, origin: Origin) -> Iterator[Entry]:
        length = path.stat().st_size
        self.done += length
        descriptor = path.with_name(path.name + _DESCRIPTOR)
        described = descriptor.exists()
        if length > LONGEST_MESSAGE:
            yield origin.refused(b"", "message-too-long", _too_long(length, LONGEST_MESSAGE))
        elif described and descriptor.stat().st_size > mq_files.LONGEST_DESCRIPTOR:
            why = f"its descriptor has {_too_long(descriptor.stat().st_size, mq_files.LONGEST_DESCRIPTOR)}"
            yield origin.refused(path.read_bytes(), "bad-descriptor", why)
        else:
            yield mq_files.read(path.read_bytes(), descriptor.read_bytes() if described else None, origin)


def _files(path: Path) -> list[Path]:
    """Return the message files of a folder, in the order of their names; or a file itself.

    Raises OSError and Failure.
    """
    if not path.is_dir():
        path.stat()
        return [path]
    found = sorted(path.iterdir(), key=lambda each: each.name)
    if odd := next((each for each in found if not each.is_file()), None):
        raise Failure(f"{shown(odd)} is not a file", "a folder of message files must contain only files")
    if not found:
        raise Failure(f"{path} is empty")
    descriptors = {each.name + _DESCRIPTOR for each in found}
    return [each for each in found if each.name not in descriptors]


def _recognised(path: Path) -> str:
    """Detect the format of a capture. Raises OSError and Failure."""
    if path.with_name(path.name + _DESCRIPTOR).exists():
        return "raw"
    with path.open("rb") as file:
        head = file.read(LOOKED_AT)
    try:
        return recognise(head)
    except ValueError as error:
        raise Failure(f"{path}: {error}", f"if you know the format, add --format {'|'.join(FORMATS)}") from error


def _too_long(length: int, most: int) -> str:
    return f"{length:,} bytes; the maximum is {most:,}"


def shown(path: Path) -> str:
    """Return a path for people, with question marks for bytes that are not text."""
    return str(path).encode(errors="replace").decode()


def _unreadable(path: Path, error: OSError) -> Failure:
    return Failure(f"cannot read {shown(path)}: {error.strerror or error}")


FormatWord = Literal["auto", "qload", "raw", "mqtt", "rendezvous"]

_LEAST, _MOST = -(1 << 31), (1 << 31) - 1
_SOURCE = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
if TYPE_CHECKING:
    CountingRule = str
else:
    CountingRule = Literal[RULE_NAMES]

_SEGMENTS = (
    *numbers("Segment", "Messages", "Bytes"),
    ListColumn("Received from", order=1),
    ListColumn("to", order=2),
    ListColumn("Sources", least=12),
)
_CAPTURES = (
    ListColumn("Capture", least=12),
    ListColumn("Format", order=1),
    ListColumn("Framing", order=2),
    *numbers("Messages", "Bytes", "Unreadable"),
    ListColumn("Skipped", least=8, order=3),
)
_BATCH_BYTES = 4 << 20
_DEFAULTS = ", ".join(f"{default_framing(each)} for {each}" for each in FORMATS)
_MOST_PRINTED = 20

journal = typer.Typer(no_args_is_help=True, help="Import captures into journals, and list segments.")


@journal.command("import")
def import_(
    captures: Annotated[list[Path], typer.Argument(metavar="CAPTURE...", help="Files, or folders of message files.")],
    to: Annotated[Path, typer.Option("--to", help="The journal's folder.")],
    *,
    as_format: Annotated[FormatWord, typer.Option("--format", help="Format of the captures.")] = "auto",
    source: Annotated[str, typer.Option(help="Name of the source to record for the messages.")] = "imported",
    framing: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Framing: {', '.join(FRAMINGS)}, or one of another package. Default: {_DEFAULTS}.",
        ),
    ] = None,
    msg_type: Annotated[
        int, typer.Option(min=_LEAST, max=_MOST, help="The message type of bodies without a descriptor.")
    ] = 0,
    encoding: Annotated[int, typer.Option(min=_LEAST, max=_MOST, help="The Encoding of messages without one.")] = 0,
    ccsid: Annotated[int, typer.Option(min=_LEAST, max=_MOST, help="The CodedCharSetId of messages without one.")] = 0,
    mq_format: Annotated[str, typer.Option(help="The Format of bodies without a descriptor, such as MQSTR.")] = "",
    mqtt_version: Annotated[
        Version | None, typer.Option(help="The version of MQTT. Default: from the envelopes.")
    ] = None,
    counts: Annotated[
        CountingRule | None,
        typer.Option(help="What last messages on Rendezvous count. Default: determined from the messages."),
    ] = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Import unreadable pieces for quarantine, and continue.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per capture.")] = False,
) -> None:
    """Convert captures to journal segments: unloaded queues, message files, MQTT and Rendezvous in hexadecimal."""
    if not fullmatch(_SOURCE, source):
        raise Failure(f"{source!r} is not a valid name of a source", "use letters, digits, . _ and -, at most 64")
    if framing is not None:
        try:
            traits(framing)
        except UnknownFraming as error:
            raise Failure(str(error)) from None
    wanted = CaptureRequest(
        PhysicalMessage(source, "", msg_type, encoding=encoding, ccsid=ccsid, format=mq_format),
        None if as_format == "auto" else as_format,
        framing,
        mqtt_version,
    )
    found = [CaptureFiles(path, wanted) for path in captures]
    try:
        with closing(plugins.journal()(to)) as target:
            before = {segment.number for segment in target.segments()}
            importer = Importer(target, lambda: time_ns() // 1000, ArrivalOptions(counts=counts), keep_going=keep_going)
            with bars(DownloadColumn, TransferSpeedColumn) as progress:
                counts_by_capture = [importer.import_capture(capture, progress) for capture in found]
            target.seal()
            written = [segment for segment in target.segments() if segment.number not in before]
    except (GatewayError, OSError) as error:
        raise Failure(str(error)) from error
    grid = ListTable(_CAPTURES)
    for capture, count in zip(found, counts_by_capture, strict=True):
        if as_json:
            typer.echo(json.dumps(count.facts(capture), ensure_ascii=False))
        grid.add_row(escape(shown(capture.path)), capture.format, capture.framing, *count.cells())
    if not as_json:
        out.print(grid)
    new = f"{len(written)} new segment{'' if len(written) == 1 else 's'}"
    err.print(f"{new}, {size(sum(each.size for each in written))}, in {to}", markup=False, highlight=False)


@journal.command("ls")
def segments(
    folder: Annotated[str, typer.Argument(help="A journal, or an archive of segments: a folder or a URL.")],
    *,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line; times in µs since 1970.")
    ] = False,
) -> None:
    """List sealed segments: messages, bytes of their bodies, when they were received, and their sources."""
    try:
        archive = plugins.archive()(folder)
        found = [held for segment in archive.segments() if (held := _held(archive, segment.number)) is not None]
    except (GatewayError, OSError, ValueError) as error:
        raise Failure(str(error)) from error
    if not found:
        raise Failure(
            f"no sealed segment in {folder}",
            "a gateway seals one when it is large or old enough, and when it stops; journal import seals at once",
        )
    if as_json:
        for held in found:
            typer.echo(json.dumps(held._asdict(), ensure_ascii=False))
        return
    grid = ListTable(_SEGMENTS)
    for held in found:
        sources = ", ".join(f"{name} {count:,}" for name, count in held.sources.items())
        moments = (_moment(held.received_from), _moment(held.received_to))
        grid.add_row(str(held.segment), f"{held.messages:,}", size(held.bytes), *moments, escape(sources))
    out.print(grid)


@journal.command("give-up")
def give_up(
    segment: Annotated[int, typer.Argument(min=1, help="The number of the missing segment.")],
    path: Config = None,
    *,
    yes: Yes = False,
) -> None:
    """Continue without a segment that receivers have published, and that is lost: an empty one takes its number."""
    settings = read(path, transports=False)
    if not settings.journal.shared:
        raise Failure("only a journal that receivers share (journal.shared) waits for a missing segment")
    confirm(f"What was not assembled of segment {segment} is missing from then on, unless it is sent again.", yes=yes)
    try:
        archive = plugins.archive()(settings.journal.archive_url or "", settings.archive_cache)
        if not archive.give_up(segment):
            raise Failure(f"nobody waits for segment {segment}: it is there, or receivers have published none after it")
    except GatewayError as error:
        raise Failure(str(error)) from error
    err.print(f"an empty segment {segment} is in the archive", highlight=False)


class SegmentContents(NamedTuple):
    """The contents of a segment.

    `bytes` is the size of all bodies; times are in µs since 1970; `sources` has the number of messages by source.
    """

    segment: int
    messages: int
    bytes: int
    received_from: int
    received_to: int
    sources: dict[str, int]


def _held(archive: JournalArchive, segment: int) -> SegmentContents | None:
    """Return the contents of a segment; None when it has been retired in the meantime.

    Raises GatewayError when it cannot be read.
    """
    try:
        import pyarrow.compute as pc  # noqa: PLC0415 - no other command should wait for it

        messages = bytes_ = last = 0
        first: int | None = None
        sources: Counter[str] = Counter()
        for number in range(len(archive.batch_sizes(segment))):
            batch = archive.record_batch(segment, number)
            messages += batch.num_rows
            bytes_ += pc.sum(pc.binary_length(batch["body"])).as_py() or 0
            received = pc.min_max(batch["received_at"].cast("int64")).as_py()
            first = received["min"] if first is None else min(first, received["min"])
            last = max(last, received["max"])
            for counted in pc.value_counts(batch["source"]).to_pylist():
                sources[counted["values"]] += counted["counts"]
        return SegmentContents(segment, messages, bytes_, first or 0, last, dict(sources.most_common()))
    except KeyError:
        return None


def _moment(microseconds: int) -> str:
    return f"{to_time(microseconds):%Y-%m-%d %H:%M:%S}"


class ImportCount:
    """The result of importing a capture; `skipped` counts by kind."""

    def __init__(self) -> None:
        self.messages = self.bytes = self.refused = 0
        self.skipped: Counter[str] = Counter()

    def cells(self) -> tuple[str, str, str, str]:
        skipped = ", ".join(f"{count:,} {what}" for what, count in sorted(self.skipped.items()))
        return f"{self.messages:,}", size(self.bytes), f"{self.refused:,}", skipped

    def facts(self, capture: CaptureFiles) -> dict[str, Any]:
        """Return the result as JSON has it."""
        about = {"capture": shown(capture.path), "format": capture.format, "framing": capture.framing}
        counts = {"messages": self.messages, "bytes": self.bytes, "unreadable": self.refused}
        return {**about, **counts, "skipped": dict(self.skipped)}


class Importer:
    """An importer that appends captures to a journal, one after the other. `now` is the clock, in µs since 1970."""

    def __init__(self, target: Journal, now: Callable[[], int], options: ArrivalOptions, *, keep_going: bool) -> None:
        self._journal, self._now, self._options, self._keep_going = target, now, options, keep_going
        self._batch: list[PhysicalMessage] = []
        self._batch_bytes = 0
        self._printed = 0

    def import_capture(self, capture: CaptureFiles, progress: Progress) -> ImportCount:
        """Append a capture, up to the first piece that cannot be read.

        Raises Failure for such a piece, and GatewayError when the journal accepts no more messages.
        """
        options = self._options._replace(capture=capture.identity())
        count, arrivals = ImportCount(), ArrivalsBySource(lambda _source: options)
        bar = progress.add_task(escape(shown(capture.path)), total=capture.bytes)
        for path, entry in capture.entries(self._now):
            if isinstance(entry, SkippedEntry):
                count.skipped[entry.what] += 1
                continue
            if isinstance(entry, RefusedEntry):
                count.refused += 1
                message = self._refused(path, entry)
            else:
                count.messages += 1
                message = entry
            count.bytes += len(message.body)
            for numbered in arrivals.numbered([message]):
                self._batch.append(numbered)
                self._batch_bytes += len(numbered.body)
                if len(self._batch) == MAX_ROWS_A_BATCH or self._batch_bytes >= _BATCH_BYTES:
                    self._flush()
            if not self._batch:
                progress.update(bar, completed=capture.done)
        self._flush()
        progress.update(bar, completed=capture.bytes)
        return count

    def _refused(self, path: Path, entry: RefusedEntry) -> PhysicalMessage:
        """Return the message that represents an unreadable piece in the journal.

        Raises Failure when it is not to be kept.
        """
        line = f", line {entry.line:,}" if entry.line else ""
        at = f", byte {entry.at:,}" if entry.at >= 0 else ""
        why = f"{shown(path)}{line}{at}: {entry.why}"
        if not self._keep_going:
            self._flush()
            hint = "everything before it is in the journal; --keep-going imports such pieces for quarantine"
            raise Failure(why, hint)
        self._printed += 1
        if self._printed <= _MOST_PRINTED:
            err.print(why, markup=False, highlight=False)
        if self._printed == _MOST_PRINTED:
            err.print("further unreadable pieces are only counted", style="dim")
        return entry.message.unreadable(entry.code, why, entry.row, entry.body_at)

    def _flush(self) -> None:
        self._journal.append(self._batch)
        self._batch, self._batch_bytes = [], 0

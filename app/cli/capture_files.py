"""Captures as files and folders, and the detection of their format."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple

from app.capture import hexadecimal, mq_files, qload
from app.capture.capture_entries import LONGEST_MESSAGE, CapturedLine, Entry, Origin, lines
from app.capture.recognising import FORMATS, LOOKED_AT, recognise
from app.cli.terminal import Failure
from app.codecs.mqtt.packets import Version
from app.framing.registry import default_framing, traits
from app.model.message import PhysicalMessage

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
    """A file or a folder of captured messages. Raises Failure when it cannot be read."""

    def __init__(self, path: Path, wanted: CaptureRequest) -> None:
        self.path = path
        self._wanted = wanted
        try:
            self._files = _files(path)
            self.bytes = sum(file.stat().st_size for file in self._files)
            self.format = "raw" if path.is_dir() else wanted.format or _recognised(path, wanted)
        except OSError as error:
            raise _unreadable(path, error) from error
        self.framing = wanted.framing or default_framing(self.format)
        self.done = 0
        """Bytes that have been read so far."""
        self._require_sense()

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

    def _require_sense(self) -> None:
        """Check that path, format and framing are compatible. Raises Failure."""
        if self.path.is_dir() and self._wanted.format not in (None, "raw"):
            raise Failure(f"{self.path} is a folder; only message files can be a folder", "name the files in it")
        carried = traits(self.framing)
        if self.format not in carried.captures.formats:
            raise Failure(f"{self.path}: format {self.format} does not carry framing {self.framing}")
        if self.format == "mqtt" and not carried.needs_descriptor and self._wanted.version is None:
            raise Failure(
                f"{self.path}: the MQTT version of a {self.framing} publish cannot be detected",
                "add --mqtt-version 5 or --mqtt-version 3.1.1",
            )

    def _lines(self, path: Path, origin: Origin) -> Iterator[Entry]:
        with path.open("rb") as file:
            for entry in self._reader(file, origin):
                self.done = file.tell()
                yield entry

    def _reader(self, file: BinaryIO, origin: Origin) -> Iterator[Entry]:
        readers: dict[str, Callable[[Iterable[CapturedLine], Origin], Iterator[Entry]]] = {
            "qload": qload.read,
            "mqtt": partial(hexadecimal.read_mqtt, version=self._wanted.version),
            "rendezvous": hexadecimal.read_rendezvous,
        }
        return readers[self.format](lines(file), origin)

    def _file(self, path: Path, origin: Origin) -> Iterator[Entry]:
        length = path.stat().st_size
        self.done += length
        beside = path.with_name(path.name + _DESCRIPTOR)
        described = beside.exists()
        if length > LONGEST_MESSAGE:
            yield origin.refused(b"", "message-too-long", _too_long(length, LONGEST_MESSAGE))
        elif described and beside.stat().st_size > mq_files.LONGEST_DESCRIPTOR:
            why = f"its descriptor has {_too_long(beside.stat().st_size, mq_files.LONGEST_DESCRIPTOR)}"
            yield origin.refused(path.read_bytes(), "bad-descriptor", why)
        else:
            yield mq_files.read(path.read_bytes(), beside.read_bytes() if described else None, origin)


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


def _recognised(path: Path, wanted: CaptureRequest) -> str:
    """Detect the format of a capture. Raises OSError and Failure."""
    if path.with_name(path.name + _DESCRIPTOR).exists():
        return "raw"
    with path.open("rb") as file:
        head = file.read(LOOKED_AT)
    try:
        return recognise(head, traits(wanted.framing).captures.undescribed if wanted.framing else None)
    except ValueError as error:
        raise Failure(f"{path}: {error}", f"if you know the format, add --format {'|'.join(FORMATS)}") from error


def _too_long(length: int, most: int) -> str:
    return f"{length:,} bytes; the maximum is {most:,}"


def shown(path: Path) -> str:
    """Return a path for people, with question marks for bytes that are not text."""
    return str(path).encode(errors="replace").decode()


def _unreadable(path: Path, error: OSError) -> Failure:
    return Failure(f"cannot read {shown(path)}: {error.strerror or error}")

"""A transport through a folder: a file holds the messages of one call of `send`, a line of JSON each.

A file is complete when it has its name, and it is deleted when its messages are durable in the gateway's journal.
"""

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event
from time import time_ns
from typing import Any

from pydantic import BaseModel, ByteSize, ConfigDict

from app.model.errors import InvalidInputError
from app.model.framing_facts import FramingTraits
from app.model.message import PhysicalMessage
from app.ports import DeliveryProgress, Intake, Receiver, Sender, SendFailed

_BYTES = ("correl_id", "body", "message_id", "group_id")
_NOT_SENT = ("source", "framing", "received_at", "properties")
_PAUSE = 0.05
"""How long a receiver waits before it looks into its folder again, in seconds."""


class FolderSource(BaseModel):
    """The keys of a source, beside those of the gateway."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    folder: Path


class FolderDestination(FolderSource):
    """The keys of a destination."""

    max_body: ByteSize = ByteSize(4 << 20)


class FolderReceiver:
    """`app.ports.Receiver` for a folder."""

    def __init__(self, name: str, framing: FramingTraits, settings: FolderSource) -> None:
        self._name, self._framing, self._folder = name, framing.name, settings.folder
        self._since: int | None = None
        self._error: str | None = None

    def resume(self, newest: Iterator[PhysicalMessage]) -> bool:
        """Return False: the framing of these messages numbers them, and not the gateway."""
        del newest
        return False

    def session(self, name: str | None = None) -> None:
        """Return None: the folder keeps the files, for whoever takes them."""
        del name

    def run(self, intake: Intake, stop: Event) -> None:
        run = _Run()
        while not stop.is_set():
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                files = [each for each in sorted(self._folder.glob("*.messages")) if each not in run.taken]
            except OSError as error:
                self._since, self._error = None, str(error)
                stop.wait(1)
                continue
            self._since, self._error = self._since or _now(), None
            for file in files:
                self._take(file, intake, run)
                if stop.is_set():
                    break
            stop.wait(_PAUSE)
        run.is_over = True
        self._since = None

    def _take(self, file: Path, intake: Intake, run: "_Run") -> None:
        run.taken.add(file)
        try:
            sent = [_read(line) for line in file.read_bytes().splitlines()]
        except (ValueError, TypeError) as error:
            unread = PhysicalMessage(self._name, self._framing, body=file.read_bytes(), received_at=_now())
            why = f"{file.name}: {error}"
            intake.refuse(unread, InvalidInputError("bad-file", "", -1, why), lambda: run.delete(file))
            return
        now = _now()
        mine = [each._replace(source=self._name, framing=self._framing, received_at=now) for each in sent]
        intake.submit(mine, lambda: run.delete(file))

    def status(self) -> dict[str, Any]:
        return {"connected": self._since is not None, "since": self._since, "error": self._error}


class _Run:
    """What a receiver has taken since it began. When the run is over, files are no longer deleted: the next run takes
    them again."""

    def __init__(self) -> None:
        self.taken: set[Path] = set()
        self.is_over = False

    def delete(self, file: Path) -> None:
        """Acknowledge the messages of a file."""
        if not self.is_over:
            file.unlink(missing_ok=True)


class FolderSender:
    """`app.ports.Sender` for a folder."""

    def __init__(self, settings: FolderDestination) -> None:
        self._folder, self._max_body = settings.folder, settings.max_body
        self._since = _now()

    def max_body(self, wanted: int | None = None) -> int:
        del wanted
        return self._max_body

    def max_batch(self) -> int:
        return 100

    def resume(self, delivery: str, known: int | None) -> int:
        del delivery
        return known or 0

    def send(self, messages: Sequence[PhysicalMessage], progress: DeliveryProgress | None = None) -> None:
        del progress
        for message in messages:
            if len(message.body) > self._max_body:
                why = f"the body has {len(message.body):,} bytes; the folder takes at most {self._max_body:,}"
                raise SendFailed(why, permanent=True)
        try:
            self._write(b"".join(map(_written, messages)))
        except OSError as error:
            raise SendFailed(f"{self._folder}: {error}") from error

    def _write(self, content: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        unfinished = self._folder / f"{time_ns():020}.unfinished"
        with unfinished.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(unfinished.with_suffix(".messages"))
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def forget(self, delivery: str) -> None:
        pass

    def tidy(self, may_continue: Callable[[str], bool]) -> None:
        pass

    def repeats(self) -> str | None:
        return "The messages of one file can arrive twice after a crash."

    def close(self) -> None:
        pass

    def status(self) -> dict[str, Any]:
        return {"connected": True, "since": self._since, "error": None}


class FolderPlugin:
    """`app.ports.TransportPlugin`."""

    source_settings: type[BaseModel] = FolderSource
    destination_settings: type[BaseModel] = FolderDestination

    def receiver(self, name: str, framing: FramingTraits, settings: BaseModel) -> Receiver:
        return FolderReceiver(name, framing, FolderSource.model_validate(settings))

    def sender(self, name: str, settings: BaseModel) -> Sender:
        del name
        return FolderSender(FolderDestination.model_validate(settings))


plugin = FolderPlugin()


def _now() -> int:
    return time_ns() // 1000


def _written(message: PhysicalMessage) -> bytes:
    fields = {name: value for name, value in message._asdict().items() if name not in _NOT_SENT}
    encoded = {name: b64encode(fields[name]).decode() for name in _BYTES}
    return json.dumps(fields | encoded).encode() + b"\n"


def _read(line: bytes) -> PhysicalMessage:
    fields = json.loads(line)
    return PhysicalMessage("", "", **fields | {name: b64decode(fields[name], validate=True) for name in _BYTES})

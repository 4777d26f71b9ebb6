"""A gateway with real adapters and things in stock, for tests and benchmarks of REST."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from random import Random
from threading import Thread
from time import monotonic, time_ns
from typing import Any
from uuid import uuid4

import pyarrow as pa
import uvicorn
from prometheus_client import Counter
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from adapters.arrow_journal import ArrowJournal
from adapters.memory import MemoryReceiver, QueueSettings, queue
from adapters.object_store import ObjectStore
from adapters.sql_catalog import SqlCatalog
from adapters.sql_catalog.schema import catalog_tables
from app.metrics import Metrics
from app.model.attachment import AttachmentKind, AttachmentState
from app.model.identity import attachment_id, message_id
from app.model.message import PhysicalMessage, Position
from app.model.records import (
    AttachmentRecord,
    Checkpoint,
    Extent,
    Finished,
    JournalIdentity,
    MessageRecord,
    PartRun,
    QuarantineRecord,
)
from app.ports import ArchivedJournal, DeliveryProgress
from app.service.content.stored_content import Measured
from app.service.context import ReceiverContext, RepeatedParts
from app.service.gateway import Gateway
from app.service.instance import new_instance
from app.service.threads import Notifier
from app.settings import Settings
from app.testing.gateway_stages import migrated
from app.testing.waiting import until
from app.web.server.uvicorn_configuration import configuration


class Clock:
    """The machine's clock, or whatever a test sets."""

    def __init__(self) -> None:
        self.fixed: int | None = None
        self.stopped: float | None = None
        """The monotonic time, if it stands still."""

    def now(self) -> int:
        return time_ns() // 1000 if self.fixed is None else self.fixed

    def advance(self, seconds: float) -> None:
        """Let time pass, and stand still then."""
        self.fixed, self.stopped = self.now() + int(seconds * 1e6), self.monotonic() + seconds

    def monotonic(self) -> float:
        return monotonic() if self.stopped is None else self.stopped


class Recorder:
    """A destination that takes everything."""

    def __init__(self) -> None:
        self.sent: list[PhysicalMessage] = []

    def max_body(self, wanted: int | None = None) -> int:
        del wanted
        return 1 << 20

    def max_batch(self) -> int:
        return 64

    def resume(self, delivery: str, known: int | None) -> int:
        del delivery
        return known or 0

    def send(self, messages: Sequence[PhysicalMessage], progress: DeliveryProgress | None = None) -> None:
        del progress
        self.sent += messages

    def forget(self, delivery: str) -> None: ...

    def tidy(self, may_go_on: Callable[[str], bool]) -> None: ...

    def repeats(self) -> str | None:
        return None

    def close(self) -> None: ...

    def status(self) -> dict[str, Any]:
        return {"connected": True, "since": 0, "error": None}


class Stock:
    """A gateway that is not started, and means to put things into its journal, catalog and store."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        destinations: dict[str, dict[str, Any]] = {
            name: {"transport": "memory", "queue": name} for name in ("partner", "archive")
        }
        destinations["rendezvous"] = {"transport": "memory", "queue": "rendezvous", "framing": "sas_rendezvous"}
        destinations["groups"] = {"transport": "memory", "queue": "groups", "framing": "mq_group"}
        for name, ccsid, encoding in (("mainframe", 37, 785), ("utf-16", 1200, 546), ("unreadable", 930, 785)):
            destinations[name] = {"transport": "memory", "queue": name, "ccsid": ccsid, "encoding": encoding}
        self.settings = Settings(**{"data": folder, "destinations": destinations, **settings})
        self.journal = ArrowJournal(folder / "journal")
        migrated(folder / "catalog.sqlite")
        self.catalog = SqlCatalog(self.settings.catalog_url)
        self.store = ObjectStore(folder / "content")
        self.clock = Clock()
        self.recorder = Recorder()
        senders = dict.fromkeys(self.settings.destinations, self.recorder)
        context = ReceiverContext(
            settings=self.settings,
            journal=self.journal,
            catalog=self.catalog,
            store=self.store,
            clock=self.clock,
            metrics=Metrics(),
        )
        receivers = {
            name: MemoryReceiver(name, source.framing, QueueSettings.model_validate(source.options.model_dump()))
            for name, source in self.settings.sources.items()
        }
        self.gateway = Gateway(context, receivers, senders)
        self._count = 0

    def attachment(self, **fields: Any) -> AttachmentRecord:
        """An attachment in some state, as the catalog gives it back."""
        self._count += 1
        correl_id = self._count.to_bytes(16)
        source = fields.get("source", "orders")
        now = self.clock.now()
        record = AttachmentRecord(
            **{
                "id": attachment_id(source, correl_id),
                "source": source,
                "correl_id": correl_id,
                "kind": AttachmentKind.BINARY_FILE,
                "qualifier_1": "FILENAME",
                "qualifier_2": f"file-{self._count}.bin",
                "first_received_at": now,
                "last_received_at": now,
                **fields,
            }
        )
        self.catalog.checkpoint(Checkpoint(attachments=[record]))
        found = self.catalog.attachment(record.id)
        assert found is not None
        return found

    def many(self, count: int, before: int = 0) -> None:
        """Put `count` expired attachments of the source `many` into the catalog, numbered from `before` + 1 on, and
        newer than those before: copies of one, made by SQL."""
        template = self.attachment(state=AttachmentState.EXPIRED, source="template", qualifier_2="template")
        own = {
            "source": "'many'",
            "id": "printf('%032x', number)",
            "correl_id": "randomblob(16)",
            "qualifier_2": "printf('many-%06d.bin', number)",
            "name_folded": "printf('many-%06d.bin', number)",
            "first_received_at": "first_received_at + number",
        }
        columns = [column.name for column in catalog_tables.attachments.columns]
        into, copied = ", ".join(columns), ", ".join(own.get(name, name) for name in columns)
        with sqlite3.connect(self.settings.data / "catalog.sqlite", isolation_level=None) as database:
            database.execute(
                "WITH RECURSIVE numbers(number) AS (SELECT ? + 1 UNION ALL SELECT number + 1 FROM numbers LIMIT ?) "
                f"INSERT INTO attachments ({into}) SELECT {copied} FROM numbers, attachments WHERE id = ?",
                [before, count, template.id],
            )
            database.execute("DELETE FROM attachments WHERE id = ?", [template.id])
        database.close()

    def stored(
        self, data: bytes, content_type: str = "application/octet-stream", *, checked: bool = True, **fields: Any
    ) -> AttachmentRecord:
        """A finished attachment in the content store, with or without the checksums of its blocks."""
        record = self.attachment(state=AttachmentState.COMPLETE, **fields)
        name = f"attachments/{record.id}"
        with self.store.create(name) as target:
            measured = Measured(target)
            measured.write(data)
        checksums = measured.object(name).checksums if checked else None
        return self._finish(record, data, content_type, storage="store", object_name=name, checksums=checksums)

    def journalled(self, data: bytes, part_size: int = 32000, **fields: Any) -> AttachmentRecord:
        """A finished attachment that still lies in the journal."""
        record = self.attachment(state=AttachmentState.COMPLETE, **fields)
        bodies = [memoryview(data)[at : at + part_size] for at in range(0, len(data), part_size)]
        extents: list[Extent] = []
        for at in range(0, len(bodies), 256):
            messages = [PhysicalMessage("orders", "sas_queue", body=body) for body in bodies[at : at + 256]]
            extents += self.journal.extents(self.journal.append(messages))
        return self._finish(record, data, "application/octet-stream", storage="journal", extents=tuple(extents))

    def _finish(self, record: AttachmentRecord, data: bytes, content_type: str, **how: Any) -> AttachmentRecord:
        digest = sha256(data).hexdigest()
        finished = Finished(record.id, len(data), digest, content_type, finished_at=self.clock.now(), **how)
        assert self.catalog.finish([finished], [])
        found = self.catalog.attachment(record.id)
        assert found is not None
        return found

    def receiving(self, runs: Iterable[tuple[int, int]], expected: int | None, **fields: Any) -> AttachmentRecord:
        """An attachment of which these closed ranges of parts have come."""
        pieces = [PartRun(first, last - first + 1, first) for first, last in runs]
        record = self.attachment(
            parts_expected=expected, parts_received=sum(run.length for run in pieces), bytes_received=100, **fields
        )
        self.catalog.checkpoint(Checkpoint(part_runs={record.id: pieces}))
        return record

    def message(self, attachments: Sequence[AttachmentRecord], **fields: Any) -> MessageRecord:
        self._count += 1
        header = self._count.to_bytes(24)
        record = MessageRecord(
            **{
                "id": message_id("orders", header),
                "source": "orders",
                "header_correl_id": header,
                "message_correl_id": bytes(24),
                "original_msg_type": 1,
                "original_correl_id": bytes(24),
                "attachments": tuple(attachment.id for attachment in attachments),
                "header_position": 0,
                "received_at": self.clock.now(),
                **fields,
            }
        )
        belonging = [replace(attachment, message_id=record.id) for attachment in attachments]
        self.catalog.checkpoint(Checkpoint(messages=[record], attachments=belonging))
        return record

    def receiver(self, name: str, seconds: int = 0) -> str:
        """Have a receiver join that was seen so many seconds ago, and return the identifier of its journal."""
        own = JournalIdentity(uuid4().hex, 1)
        self.catalog.join(own, name, (), ArchivedJournal(self.journal.identity(), 0, 0))
        with closing(sqlite3.connect(self.settings.data / "catalog.sqlite", isolation_level=None)) as database:
            database.execute(
                "UPDATE receiving_journals SET seen_at = seen_at - ? WHERE id = ?", [seconds * 1_000_000, own.id]
            )
        return own.id

    def quarantined(self, body: bytes, **fields: Any) -> QuarantineRecord:
        self._count += 1
        source = fields.get("source", "orders")
        now = self.clock.now()  # retention leaves what has just come, and what becomes of it when it is replayed
        message = PhysicalMessage(source, "sas_queue", msg_type=100000, body=body, received_at=now)
        message = message._replace(properties={"mqmd.put_appl_name": "sas.exe"})
        (position,) = self.journal.append([message])
        record = QuarantineRecord(
            id=fields.get("id", f"{self._count:032x}"),
            source=source,
            position=position.pack(),
            code="truncated",
            row="AttachmentHeader.attachments",
            at=7,
            why="ends early",
            msg_type=100000,
            correl_id=bytes(24),
            size=len(body),
            received_at=now,
        )
        self.catalog.checkpoint(Checkpoint(quarantine=[record]))
        return record

    def table(self, name: str, *sources: str) -> None:
        """A table of the pipeline, with a row from each of these sources."""
        rows = pa.table({"source": list(sources), "N": [1.0] * len(sources)})
        store = self.gateway.tables.delta()
        store.commit(name, rows.schema, [store.write(name, rows.schema, rows.to_batches())], "test", 1)

    def deliver(self, messages: Sequence[PhysicalMessage]) -> None:
        """Let the source `orders`, which must be in the settings and whose gateway runs, receive and assemble these."""
        before = self.journal.end()
        ahead = -1 if before is None else before.pack()
        count = self.gateway.metrics.messages_received.labels("orders")
        wanted = _value(count) + len(messages)
        queue(self.settings.sources["orders"].options.queue).put(messages)  # type: ignore[attr-defined]
        until(lambda: _value(count) == wanted)
        until(lambda: (self.catalog.progress() or -1) >= (self.journal.end() or Position(0, 0, 0)).pack() > ahead)

    def replica(self) -> Gateway:
        """Return a gateway of another process over the same stores."""
        shared = self.gateway.context
        context = replace(
            shared, metrics=Metrics(), notifier=Notifier(), repeated=RepeatedParts(), instance=new_instance()
        )
        return Gateway(context, {}, dict.fromkeys(self.settings.destinations, self.recorder))

    def close(self) -> None:
        self.gateway.stop()


def arriving() -> dict[str, Any]:
    """The settings of a stock with a source `orders`, a queue of this process."""
    return {"sources": {"orders": {"transport": "memory", "queue": uuid4().hex}}}


def _value(counter: Counter) -> float:
    return sum(each.value for family in counter.collect() for each in family.samples if each.name.endswith("_total"))


class _PromptServer(uvicorn.Server):
    """Looks for its end a hundred times a second, not ten times."""

    async def main_loop(self) -> None:
        while not self.should_exit:
            await self.on_tick(0)
            for _ in range(10):
                await asyncio.sleep(0 if self.should_exit else 0.01)


@contextmanager
def serving(app: Any, *others: Any, grace: int | None = None) -> Iterator[str]:
    """The address at which uvicorn serves an application, in a thread. Each request goes to it or to one of others.
    In the end, running requests have `grace` seconds."""
    apps, random = [app, *others], Random(33)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for each in apps:
                await stack.enter_async_context(each.router.lifespan_context(each))
            yield

    begun = Router(lifespan=lifespan)

    async def spread(scope: Scope, receive: Receive, send: Send) -> None:
        await (begun if scope["type"] == "lifespan" else random.choice(apps))(scope, receive, send)

    served: Any = spread if others else app
    http = app.state.gateway.settings.http.model_copy(update={"port": 0})
    config = configuration(served, http, timeout_graceful_shutdown=grace)
    server = _PromptServer(config)
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    try:
        until(lambda: server.started)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)

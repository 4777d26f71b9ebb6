"""The SQL catalog on SQLite and on PostgreSQL."""

import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Barrier
from typing import Any, get_args

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, Engine, create_engine, event, make_url, text

from adapters.sql_catalog import SqlCatalog, locks
from adapters.sql_catalog.bulk_rows import PreparedStatement
from adapters.sql_catalog.database_connections import _ON_CONNECT, Database
from adapters.sql_catalog.schema.catalog_tables import metadata
from adapters.sql_catalog.schema.migrations import is_in_metadata
from adapters.sql_catalog.schema.record_rows import Columns
from app.model.attachment import AttachmentKind, AttachmentState
from app.model.data_formats import CATALOG, NewerFormat
from app.model.errors import CatalogError, CatalogTaken, GatewayError, LeaseLost
from app.model.records import Checkpoint, JournalIdentity, NewEvent, PartRun, QuarantineState, RefusedContent
from app.ports import ArchivedJournal, AttachmentFilter, Catalog, Sending, Sort
from app.testing.gateway_stages import migrated
from tests.contracts.catalog import CatalogContract
from tests.contracts.catalog.finishing import told
from tests.contracts.catalog.packed import NOW, checkpoint, pack
from tests.contracts.catalog.records import (
    HAPPENED,
    attachment,
    deleted,
    delivery,
    finished,
    keep,
    known,
    message,
    spoilt,
)
from tests.support.cases import for_each
from tests.support.length import IS_LONG
from tests.support.postgresql import new_database

ROOT = Path(__file__).parents[2]
KILLED = 50 if IS_LONG else 2
ROWS = 30


def plans(catalog: SqlCatalog, search: Callable[[SqlCatalog], object]) -> list[tuple[str, list[str]]]:
    """Return the statements of a search, each with the steps of SQLite's plan for it."""
    asked: list[tuple[str, Any]] = []

    def listen(_connection: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        asked.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", listen)
    try:
        search(catalog)
    finally:
        event.remove(Engine, "before_cursor_execute", listen)
    with catalog._database.read() as connection:
        return [
            (statement, [row.detail for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", given)])
            for statement, given in asked
        ]


SEARCHES: list[Callable[[SqlCatalog], object]] = [
    lambda catalog: catalog.attachments_by_key("quay", [bytes(16), b"x" * 16]),
    lambda catalog: catalog.messages_by_correl_id("quay", [bytes(16), b"x" * 16]),
    lambda catalog: catalog.part_runs("a1"),
    lambda catalog: catalog.unsettled_attachments(5, 5),
    lambda catalog: catalog.unsettled_attachments(5, 5, latest=9),
    lambda catalog: catalog.complete_attachments(),
    lambda catalog: catalog.attachments(AttachmentFilter(), "MTI6", 5),
    lambda catalog: catalog.attachments(AttachmentFilter(state=AttachmentState.FINISHED), "MTI6", 5),
    lambda catalog: catalog.attachments(AttachmentFilter(kind=AttachmentKind.DATA_SET), "MTI6", 5),
    lambda catalog: catalog.attachments(AttachmentFilter(source="quay", name="x"), "MTI6", 5),
    lambda catalog: catalog.attachments(AttachmentFilter(warned=True), "MTI6", 5),
    lambda catalog: catalog.attachments(AttachmentFilter(announced=True), "MTI6", 5),
    lambda catalog: catalog.attachments(AttachmentFilter(announced=False), "MTI6", 5),
    lambda catalog: catalog.attachments(AttachmentFilter(source="quay", announced=True), "MTI6", 5),
    lambda catalog: catalog.attachments(AttachmentFilter(state=AttachmentState.RECEIVING, announced=True), "MTI6", 5),
    lambda catalog: catalog.messages_that_waited(["9f2c"]),
    lambda catalog: catalog.attachments(AttachmentFilter(AttachmentState.FINISHED, source="q", warned=True), None, 5),
    lambda catalog: catalog.attachments(AttachmentFilter(within={"quay"}), "MTI6", 5),
    lambda catalog: catalog.attachments(AttachmentFilter(within={"quay", "crane"}), "MTI6", 5),
    lambda catalog: catalog.messages("quay", "MTI6", 5),
    lambda catalog: catalog.messages(None, "MTI6", 5, {"quay", "crane"}),
    lambda catalog: catalog.identifiers("attachments", "9f2c", 5),
    lambda catalog: catalog.identifiers("messages", "9f2c", 5),
    lambda catalog: catalog.identifiers("deliveries", "9f2c", 5),
    lambda catalog: catalog.identifiers("deliveries", "9f2c", 5, {"pier", "dock"}),
    lambda catalog: catalog.quarantined(None, "kept", "MTI6", 5),
    lambda catalog: catalog.quarantined(None, None, "MTI6", 5, {"quay", "crane"}),
    lambda catalog: catalog.deliveries(None, "pier", "MTI6", 5),
    lambda catalog: catalog.deliveries(None, None, "MTI6", 5, {"pier", "dock"}),
    lambda catalog: catalog.claim_delivery(Sending("pier", "a", is_alone=False), 5, lambda found: (found, []), 5, 5),
    lambda catalog: catalog.claim_delivery(Sending("pier", "a", ordered=True), 5, lambda found: (found, []), 5, 5),
    lambda catalog: catalog.ended_deliveries(5, 5),
    lambda catalog: catalog.events_after(5, 5),
    lambda catalog: catalog.prune_events(5),
    lambda catalog: catalog.counts(),
    lambda catalog: catalog.expired_before("quay", 5, 5),
    lambda catalog: catalog.uncopied_quarantine(5, 5, 5),
    lambda catalog: catalog.oldest_quarantine("quay", 5, 5),
    lambda catalog: catalog.oldest_content(5, 5),
    lambda catalog: catalog.content_to_remove(5),
    lambda catalog: catalog.left_to_complete(),
    lambda catalog: catalog.drop_attachments([*AttachmentState], 5, 5, deleted),
    lambda catalog: catalog.drop_messages(5, 5),
    lambda catalog: catalog.prune_events(5, 5, 5),
    lambda catalog: catalog.prune_events(5, 5, 5, 9),
    lambda catalog: catalog.dead_letters("hook", 5, 5),
    lambda catalog: catalog.prune_dead_letters(5, 5),
    lambda catalog: catalog.pipeline_runs("MTI6", 5),
    lambda catalog: catalog.messages("quay", "MTI6", 5, None, 1, 9),
    lambda catalog: catalog.deliveries(None, "pier", "MTI6", 5, None, 1, 9),
    lambda catalog: catalog.attachments(AttachmentFilter(source="quay"), None, 5, "received"),
    lambda catalog: catalog.attachments(AttachmentFilter(min_size=5), None, 5, "-size"),
    lambda catalog: catalog.attachments(AttachmentFilter(state=AttachmentState.FINISHED), None, 5, "name"),
    lambda catalog: catalog.count_attachments(AttachmentFilter(source="quay", name="x", max_size=5)),
    lambda catalog: catalog.quarantined("quay", "kept", None, 5, None, "cut", "too short"),
]


class SqlCatalogContract(CatalogContract):
    """What holds on every database, beyond the port; inheritors give the fixture `url`."""

    @pytest.fixture
    def catalog(self, url: str) -> Iterator[SqlCatalog]:
        catalog = SqlCatalog(url)
        yield catalog
        catalog.close()

    @pytest.fixture
    def bounded_pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, rows in (("MOST_READ", 500), ("_FIRST_READ", 100)):
            monkeypatch.setattr(f"adapters.sql_catalog.listing_pages.{name}", rows)

    def test_a_number_is_exact_up_to_the_most_that_is_counted(
        self, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("adapters.sql_catalog.listing_pages.MOST_READ", 6)
        for kept, is_all in ((6, True), (7, False)):
            keep(catalog, *(attachment(number) for number in range(kept)))
            catalog.checkpoint(Checkpoint(quarantine=[spoilt(number) for number in range(kept)]))
            assert catalog.count_attachments(AttachmentFilter()) == (6, is_all)
            assert catalog.quarantine_groups(None, None, 9)[1:] == (1, 6, is_all)

    def test_groups_of_the_quarantine_count_its_newest_entries(
        self, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("adapters.sql_catalog.listing_pages.MOST_READ", 6)
        catalog.checkpoint(Checkpoint(quarantine=[spoilt(n, code="old" if n < 4 else "new") for n in range(10)]))
        catalog.set_quarantine_state("q0", "dismissed")

        def groups(state: QuarantineState) -> tuple[list[tuple[str, int]], tuple[object, ...]]:
            found = catalog.quarantine_groups(None, state, 9)
            return [(group.code, group.entries) for group in found.items], found[1:]

        assert groups("kept") == ([("new", 6)], (1, 6, False))
        assert groups("dismissed") == ([("old", 1)], (1, 1, True))

    # SQLAlchemy reads indexes of expressions from PostgreSQL only.
    @pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index")
    @pytest.mark.filterwarnings("ignore:autogenerate skipping .* expression-based index")
    def test_the_migrations_make_the_tables(self, catalog: Catalog, url: str) -> None:
        engine = create_engine(url)
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"include_object": is_in_metadata})
            assert compare_metadata(context, metadata) == []
        engine.dispose()

    def test_a_schema_of_a_newer_version_is_refused_with_what_to_do(self, catalog: SqlCatalog, url: str) -> None:
        catalog.close()
        engine = create_engine(url)
        with engine.begin() as connection:
            (known,) = connection.scalars(text("SELECT version_num FROM alembic_version"))
            connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        assert int(known) == CATALOG.number
        with closing(SqlCatalog.leases(url)) as leases, pytest.raises(NewerFormat):
            leases.lease_holder("active")
        for opened in (SqlCatalog, lambda url: SqlCatalog.database(url).require_known()):
            with pytest.raises(NewerFormat) as refused:
                opened(url)
            said = str(refused.value)
            assert "a newer version of this program has written the catalog" in said
            assert f"format 9999 of the catalog, and this version knows formats up to {CATALOG.number}" in said
            assert "attachment-gateway rebuild" in said
            assert "revision" not in said
        for foreign in ("1f3a", "9" * 30):
            with engine.begin() as connection:
                connection.execute(text("UPDATE alembic_version SET version_num = :foreign"), {"foreign": foreign})
            with pytest.raises(GatewayError, match=f"the schema '{foreign}' of another program"):
                SqlCatalog(url)
        with engine.begin() as connection:
            connection.execute(text("UPDATE alembic_version SET version_num = :known"), {"known": known})
        engine.dispose()
        SqlCatalog.database(url).require_known()
        SqlCatalog(url).close()

    def test_who_takes_over_ends_the_writes_of_all_before(self, catalog: SqlCatalog, url: str) -> None:
        first = JournalIdentity("a" * 32, catalog.take_over(7))
        assert first.epoch == 7
        catalog.bind(first)
        other = SqlCatalog(url)
        assert other.take_over(3) == 8
        with pytest.raises(CatalogTaken, match=r"epoch 8 .* this process has epoch 7"):
            catalog.checkpoint(Checkpoint())
        with pytest.raises(GatewayError, match="older copy"):
            catalog.bind(first)
        other.bind(first._replace(epoch=8))
        other.checkpoint(Checkpoint())
        other.close()

    def test_who_has_lost_the_lease_takes_nothing_over(self, url: str) -> None:
        with closing(SqlCatalog.leases(url)) as leases:
            assert leases.lease_holder("active") is None  # this made the schema
            first = leases.take_lease("active", "one", 3600.0)
            assert first is not None
            with closing(SqlCatalog(url)) as catalog:
                assert catalog.under(first).take_over(7) == 7
                assert leases.take_lease("active", "two", 3600.0, at_once=True) is not None
                with pytest.raises(LeaseLost, match="one writes nothing more"):
                    catalog.under(first).take_over(8)
                assert catalog.take_over(1) == 8

    def test_opens_again_with_all_that_was_there(self, url: str) -> None:
        for opened in range(3):
            catalog = SqlCatalog(url)
            assert catalog.progress() == (opened or None)
            catalog.checkpoint(Checkpoint(progress=opened + 1))
            catalog.close()

    @pytest.mark.parametrize(
        ("call", "durable"),
        [
            (lambda catalog: catalog.checkpoint(Checkpoint(progress=1)), False),
            (lambda catalog: catalog.finish([finished(1)], []), False),
            (lambda catalog: catalog.checkpoint(Checkpoint(events=[HAPPENED])), False),
            (lambda catalog: catalog.add_delivery(delivery(2), []), True),
            (lambda catalog: catalog.update_delivery(delivery(1)), True),
            (lambda catalog: catalog.set_state(["a1"], AttachmentState.DELETED), True),
            (lambda catalog: catalog.set_quarantine_state("q1", "dismissed"), True),
            (lambda catalog: catalog.needed_segments(), True),
        ],
    )
    def test_decisions_are_durable_on_return(
        self, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch, call: Any, *, durable: bool
    ) -> None:
        keep(catalog, attachment(1, AttachmentState.COMPLETE))
        catalog.checkpoint(Checkpoint(quarantine=[spoilt(1)]))
        catalog.add_delivery(delivery(1), [])
        asked = []
        write = Database.write

        def watched(database: Database, *, durable: bool = False) -> Any:
            asked.append(durable)
            return write(database, durable=durable)

        monkeypatch.setattr(Database, "write", watched)
        call(catalog)
        assert asked == [durable]

    @pytest.mark.parametrize(
        "state", [state for state in AttachmentState if state.value not in {"quarantined", "complete"}]
    )
    def test_only_what_is_quarantined_gets_another_try(self, catalog: SqlCatalog, state: AttachmentState) -> None:
        keep(catalog, attachment(1, AttachmentState.QUARANTINED), attachment(2, state))
        catalog.set_state(["a1", "a2"], AttachmentState.COMPLETE)
        found = [catalog.attachment(each) for each in ("a1", "a2")]
        assert [each and each.state for each in found] == [AttachmentState.COMPLETE, state]

    @pytest.mark.parametrize("blank", [b"\0", b" ", b"@"])
    def test_a_blank_correlid_announces_no_application_message(self, catalog: SqlCatalog, blank: bytes) -> None:
        theirs = attachment(1, AttachmentState.COMPLETE, message_id="m1")
        catalog.checkpoint(Checkpoint(attachments=[theirs], messages=[message(1, "a1", message_correl_id=blank * 24)]))
        catalog.finish([finished(1)], [])
        assert catalog.complete_messages(["a1"], 60, told) == {"m1"}

    def test_two_catalogs_on_one_database_write_in_turns(self, catalog: SqlCatalog, url: str) -> None:
        """As the gateway and a job beside it do: neither overwrites, deadlocks with or fails because of the other."""
        many = [attachment(number, AttachmentState.COMPLETE, message_id=f"m{number}") for number in range(400)]
        other = SqlCatalog(url)

        def assemble() -> set[str]:
            missed = set()
            for _ in range(5):
                step = Checkpoint(attachments=many, finished=[finished(number) for number in range(400)])
                missed = catalog.checkpoint(step)
            return missed

        def delete(numbers: range) -> None:
            for number in numbers:
                other.set_state([f"a{number}", f"a{number - 1}"], AttachmentState.DELETED)

        with ThreadPoolExecutor(2) as pool:
            deleting = pool.submit(delete, range(399, 300, -1))
            assert pool.submit(assemble).result() == {record.id for record in many}
            deleting.result()
        delete(range(399, 300, -1))
        counted = catalog.counts()["attachments"]
        assert (counted[AttachmentState.DELETED], counted[AttachmentState.FINISHED]) == (100, 300)
        other.close()

    def test_a_write_that_is_under_way_is_waited_for(self, catalog: SqlCatalog, url: str) -> None:
        """The database may still be at work on a commit after the connection to it has broken."""
        other, is_written, may_end = SqlCatalog(url), Barrier(2), Barrier(2)

        def slowly(_connection: Connection) -> None:
            is_written.wait(30)
            may_end.wait(30)

        with ThreadPoolExecutor(2) as pool:
            event.listen(other._database._durable, "commit", slowly)
            writing = pool.submit(other.add_delivery, delivery(1), [])
            is_written.wait(30)
            assert catalog.delivery("d1") is None
            asking = pool.submit(catalog.is_delivery_recorded, "d1")
            assert not wait([asking], 0.3).done
            may_end.wait(30)
            assert asking.result(30)
            writing.result(30)
        assert not catalog.is_delivery_recorded("d2")
        other.close()

    def test_one_gateway_at_a_time_has_it(self, catalog: SqlCatalog, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        catalog.lock()
        catalog.lock()
        for _ in range(2):
            other = SqlCatalog(url)
            with monkeypatch.context() as patched:
                patched.setattr(locks, "_LONGEST_WAIT", 0.3)
                with pytest.raises(CatalogTaken, match="another gateway"):
                    other.lock()
            other.checkpoint(Checkpoint())  # who assembles beside the gateway needs no lock
            other.close()
        catalog.close()
        other = SqlCatalog(url)
        other.lock()
        other.close()

    def test_receivers_join_at_the_same_time_and_not_beside_a_gateway_that_receives_alone(
        self, catalog: SqlCatalog, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(locks, "_LONGEST_WAIT", 0.3)
        own, archived = JournalIdentity("a" * 32, 1), ArchivedJournal(JournalIdentity("c" * 32, 1), 0, 0)
        joining, other = catalog._database.lock, SqlCatalog(url)
        joining.take(shared=True)
        other.join(own, "one", ["quay"], archived)
        joining.release()
        catalog.lock()
        with pytest.raises(CatalogTaken, match="another gateway"):
            other.join(own, "one", ["quay"], archived)
        other.close()

    @pytest.mark.process
    def test_a_killed_gateway_has_it_no_more(
        self, catalog: SqlCatalog, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        code = f"from adapters.sql_catalog import SqlCatalog\nc = SqlCatalog({url!r})\nc.lock()\nprint(1, flush=True)\n"
        lives_on = [sys.executable, "-c", f"{code}import time\ntime.sleep(600)"]
        with subprocess.Popen(lives_on, cwd=ROOT, stdout=subprocess.PIPE, text=True) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "1\n"
            with monkeypatch.context() as patched:
                patched.setattr(locks, "_LONGEST_WAIT", 0.3)
                with pytest.raises(CatalogTaken):
                    catalog.lock()
            holder.kill()
            holder.wait(30)
        catalog.lock()

    def test_a_gateway_that_was_replaced_writes_nothing_more(self, catalog: SqlCatalog, url: str) -> None:
        catalog.bind(JournalIdentity("a" * 32, 1))
        catalog.checkpoint(Checkpoint(progress=1))
        later = SqlCatalog(url)
        later.bind(JournalIdentity("a" * 32, 2))
        with pytest.raises(CatalogTaken, match="epoch 2 "):
            catalog.checkpoint(Checkpoint(progress=2))
        with pytest.raises(CatalogTaken):
            catalog.set_state(["a1"], AttachmentState.DELETED)
        with pytest.raises(GatewayError, match="older copy"):
            catalog.bind(JournalIdentity("a" * 32, 1))
        assert later.progress() == 1
        later.checkpoint(Checkpoint(progress=3))
        later.close()

    @pytest.mark.process
    def test_a_killed_writer_leaves_whole_checkpoints(self, url: str) -> None:
        writes_for_ever = [sys.executable, "-m", __name__, url]
        done = 0
        for life in range(KILLED):
            with subprocess.Popen(writes_for_ever, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
                assert writer.stdout is not None
                for _ in range(3 + life):
                    done = int(writer.stdout.readline())
                writer.send_signal(signal.SIGKILL)
            catalog = SqlCatalog(url)
            progress = catalog.progress()
            assert progress is not None
            assert progress >= done, "a returned checkpoint outlives its process"
            listed = catalog.attachments(AttachmentFilter(), None, 2 * ROWS).items
            assert [record.parts_received for record in listed] == [progress] * ROWS
            for record in listed:
                assert catalog.part_runs(record.id) == [PartRun(step, 1, step) for step in range(1, progress + 1)]
            events = catalog.events_after(0, progress + 1)
            assert len(events) == progress
            assert catalog.last_event() == events[-1].number, "numbers of transactions that were undone are left out"
            catalog.close()


class TestSqlite(SqlCatalogContract):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/new folder %41/catalog.db"

    @pytest.fixture
    def catalog(self, url: str) -> Iterator[SqlCatalog]:
        migrated(Path(str(make_url(url).database)))
        with closing(SqlCatalog(url)) as catalog:
            yield catalog

    def test_each_connection_keeps_its_promise(self, url: str) -> None:
        database = Database(url)
        pragmas = ("journal_mode", "synchronous", "query_only")

        def settings(connection: Any) -> tuple[Any, ...]:
            return tuple(connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in pragmas)

        normal, full = 1, 2
        with database.write() as connection:
            assert settings(connection) == ("wal", normal, 0)
        with database.write(durable=True) as connection:
            assert settings(connection) == ("wal", full, 0)
        with database.read() as connection:
            assert settings(connection) == ("wal", full, 1)
        database.close()

    def test_threads_never_meet_a_busy_database(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        for role in ("quick", "durable"):
            impatient = (*_ON_CONNECT["sqlite", role], "PRAGMA busy_timeout = 0")
            monkeypatch.setitem(_ON_CONNECT, ("sqlite", role), impatient)
        catalog = SqlCatalog(url)

        def write(thread: int) -> None:
            for number in range(thread, 100, 4):
                catalog.checkpoint(Checkpoint(attachments=[attachment(number)]))
                catalog.add_delivery(delivery(number), [HAPPENED])

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(write, range(4))) == [None] * 4
        assert catalog.last_event() == 100
        catalog.close()

    @for_each("search", SEARCHES)
    def test_searches_use_indexes(self, catalog: SqlCatalog, search: Callable[[SqlCatalog], object]) -> None:
        for statement, plan in plans(catalog, search):
            slow = r"SCAN (?!anon_)\w+$|USE TEMP B-TREE FOR (LAST|ORDER)"
            assert not [step for step in plan if re.match(slow, step)], statement

    @pytest.mark.parametrize("sort", get_args(Sort))
    def test_a_page_begins_at_its_place_in_an_index(self, catalog: SqlCatalog, sort: Sort) -> None:
        keep(catalog, attachment(1), attachment(2))
        cursor = catalog.attachments(AttachmentFilter(), None, 1, sort).next
        ((_, plan),) = plans(catalog, lambda catalog: catalog.attachments(AttachmentFilter(), cursor, 1, sort))
        assert [step.partition(" USING")[0] for step in plan] == ["SEARCH attachments"]

    def test_few_rows_are_read_by_their_own_index(self, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("adapters.sql_catalog.listing_pages._FIRST_READ", 2)
        keep(catalog, *(attachment(number) for number in range(5)))
        which = AttachmentFilter(min_size=9, received_after=1)
        for search in (
            lambda catalog: catalog.attachments(which, None, 5),
            lambda catalog: catalog.attachments(which, catalog.attachments(AttachmentFilter(), None, 1).next, 5),
        ):
            *_, (_, (step, *_)) = plans(catalog, search)
            assert step == "SEARCH attachments USING INDEX ix_attachments_size_key (<expr>>?)"

    def test_indexes_that_are_built_after_packed_rows_are_those_before(self, catalog: SqlCatalog, url: str) -> None:
        """Also when the rows are refused."""
        path = str(make_url(url).database)
        statements: list[str] = []

        def schema() -> set[tuple[str, str, str]]:
            with closing(sqlite3.connect(path)) as database:
                assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                return set(database.execute("SELECT type, name, sql FROM sqlite_master"))

        def dropped() -> set[str]:
            found = {each.split('"')[1] for each in statements if each.startswith("DROP INDEX")}
            statements.clear()
            return found

        before = schema()
        engine = catalog._database._quick
        event.listen(engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
        assert catalog.add_finished([pack(catalog, checkpoint(1, 2))], NOW)
        assert schema() == before
        assert {f"ix_attachments_{name}_first_received_at_id" for name in ("source", "state", "kind")} <= dropped()
        assert not catalog.add_finished([pack(catalog, checkpoint(2, 3, 4))], NOW)
        assert schema() == before
        assert dropped()
        assert catalog.add_finished([pack(catalog, checkpoint(3))], NOW)
        assert not dropped()
        messages = Checkpoint(messages=[message(1)], events=[NewEvent("message.complete", "m1", 0, {})])
        catalog.add_messages([pack(catalog, messages)], NOW)
        assert schema() == before
        assert "ix_messages_received_at_id" in dropped()
        assert known(catalog, 1).state is AttachmentState.FINISHED

    @pytest.mark.parametrize("damaged", ["page", "header"])
    def test_a_damaged_page_is_one_sentence(self, tmp_path: Path, damaged: str) -> None:
        path = tmp_path / "catalog.db"
        catalog = SqlCatalog(f"sqlite:///{path}")
        keep(catalog, *(attachment(number, qualifier_2="n" * 500) for number in range(300)))
        catalog.close()
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.seek(0 if damaged == "header" else 4096)
            file.write(b"\xa5" * (size - file.tell() if damaged == "page" else 100))
        with pytest.raises(CatalogError) as met:  # noqa: PT012 - where it is met depends on the page
            catalog = SqlCatalog(f"sqlite:///{path}")
            catalog.attachments(AttachmentFilter(), None, 300)
        assert str(met.value).startswith(f"the catalog {path} is damaged (")
        assert "attachment-gateway" in str(met.value)
        assert "\n" not in str(met.value)

    def test_an_error_of_the_disk_is_one_sentence(self, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
        def fails(_connection: object, _cursor: object, *_: object) -> None:
            raise sqlite3.OperationalError("disk I/O error")

        engine = catalog._database._readers
        event.listen(engine, "before_cursor_execute", fails)
        with pytest.raises(CatalogError, match=r"cannot be read or written \(disk I/O error\): check its disk"):
            catalog.progress()

    def test_no_row_of_a_checkpoint_makes_a_table(self, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
        ran: set[str] = set()
        rows = PreparedStatement.rows

        def noted(prepared: PreparedStatement, columns: Columns) -> Iterator[Any]:
            ran.add(prepared.sql)
            return rows(prepared, columns)

        monkeypatch.setattr(PreparedStatement, "rows", noted)
        begun = [attachment(1, message_id="m1"), attachment(2)]
        runs = {each.id: [PartRun(1, 1, 0)] for each in begun}
        catalog.checkpoint(
            Checkpoint(attachments=begun, messages=[message(1, "a1")], part_runs=runs, events=[HAPPENED])
        )
        complete = [replace(each, state=AttachmentState.COMPLETE) for each in begun]
        refused = [RefusedContent("a2", "torn", "it ends too early")]
        catalog.checkpoint(Checkpoint(attachments=complete, finished=[finished(1)], refused=refused))
        catalog.complete_messages(["a1"], 5, lambda *_: HAPPENED)
        assert len(ran) >= 8
        with catalog._database.read() as connection:
            for statement in ran:
                blanks = (None,) * statement.count("?")
                steps = connection.exec_driver_sql(f"EXPLAIN {statement}", blanks)
                assert "OpenEphemeral" not in {step.opcode for step in steps}, statement

    def test_needs_a_file(self) -> None:
        with pytest.raises(ValueError, match="file"):
            SqlCatalog("sqlite://")

    def test_knows_its_databases(self) -> None:
        with pytest.raises(ValueError, match="mysql"):
            SqlCatalog("mysql://host/name")

    @pytest.mark.parametrize("opened", [SqlCatalog, lambda url: SqlCatalog.database(url).require_known()])
    def test_names_the_extra_of_a_missing_driver(self, opened: Callable[[str], object]) -> None:
        with pytest.raises(GatewayError, match=r"pip install 'psycopg\[.*  # the extra 'postgresql'"):
            opened("postgresql+other://host/name")


@pytest.fixture(scope="module")
def emptied(postgresql: Path) -> str:
    """A catalog for all tests, which each leaves as it was new: to make one takes longer than most of them. The schema
    `first` has the rows of a new one."""
    url = new_database(postgresql)
    SqlCatalog(url).close()
    with closing(Database(url)) as database, database.write() as connection:
        connection.execute(text("CREATE SCHEMA first"))
        for table in metadata.tables.keys() | {"alembic_version"}:
            connection.execute(text(f"CREATE TABLE first.{table} AS TABLE {table}"))
    return url


class TestPostgresql(SqlCatalogContract):
    @pytest.fixture
    def url(self, postgresql: Path, emptied: str) -> Iterator[str]:
        yield emptied
        renew(postgresql, emptied)

    def test_each_connection_keeps_its_promise(self, url: str) -> None:
        database = Database(url)
        for durable, setting in ((False, "off"), (True, "on")):
            with database.write(durable=durable) as connection:
                assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == setting
        database.close()

    def test_a_lease_is_renewed_while_another_process_writes(self, catalog: SqlCatalog, url: str) -> None:
        lease = catalog.take_lease("active", "one", 3600.0)
        assert lease is not None
        with closing(SqlCatalog(url)) as other, other._database.write():
            assert catalog.renew_lease(lease, 3600.0)
            catalog.release_lease(lease)
            assert catalog.lease_holder("active") is None

    def test_who_waits_for_a_lease_survives_a_new_catalog(self, url: str) -> None:
        with closing(SqlCatalog.leases(url)) as leases:
            assert leases.lease_holder("active") is None
            with closing(Database(url)) as database, database.write() as connection:
                connection.execute(text("DROP SCHEMA public CASCADE"))
                connection.execute(text("CREATE SCHEMA public"))
            with pytest.raises(CatalogError, match="replaced by a new one"):
                leases.lease_holder("active")
            assert leases.lease_holder("active") is None

    def test_first_digits_are_a_range_of_an_index(self, catalog: SqlCatalog) -> None:
        asked: list[str] = []

        def listen(connection: Any, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
            if statement.startswith("SELECT"):
                asked.append("EXPLAIN " + statement)
                given.append(parameters)

        given: list[Any] = []
        event.listen(Engine, "before_cursor_execute", listen)
        try:
            catalog.identifiers("attachments", "9f2c", 5)
        finally:
            event.remove(Engine, "before_cursor_execute", listen)
        with catalog._database.read() as connection:
            connection.exec_driver_sql("SET enable_seqscan = off")
            plans = [
                "\n".join(connection.exec_driver_sql(statement, parameters).scalars())
                for statement, parameters in zip(asked, given, strict=True)
            ]
            connection.exec_driver_sql("RESET enable_seqscan")
        assert [re.findall(r"Index Cond: \(\((\w+) >= ", plan) for plan in plans] == [["id"], ["waited_as"]]
        assert not any("Sort" in plan for plan in plans)

    def test_a_lock_whose_connection_was_lost_is_taken_again_or_missed(
        self, catalog: SqlCatalog, url: str, postgresql: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("adapters.sql_catalog.locks._LONGEST_WAIT", 0.5)
        catalog.lock()
        cut_off(postgresql, url)
        catalog.lock()
        other = SqlCatalog(url)
        with pytest.raises(CatalogTaken):
            other.lock()
        cut_off(postgresql, url)
        other.lock()
        with pytest.raises(CatalogTaken):
            catalog.lock()
        other.close()

    def test_a_server_that_is_away_is_one_sentence(self, catalog: SqlCatalog, url: str) -> None:
        catalog.progress()
        with pytest.raises(CatalogError, match="cannot be used at present"):
            SqlCatalog(url.replace("catalog_", "no_such_catalog_"))

    @pytest.mark.process
    def test_gateways_that_start_at_once_make_one_schema(self, postgresql: Path) -> None:
        url = new_database(postgresql)
        command = [sys.executable, "-c", f"from adapters.sql_catalog import SqlCatalog\nSqlCatalog({url!r})"]
        opened = [subprocess.Popen(command) for _ in range(3)]
        assert [process.wait(60) for process in opened] == [0, 0, 0]


def renew(postgresql: Path, url: str) -> None:
    """Leave a catalog as it was new. Connections to it are ended, and with them their locks."""
    name = make_url(url).database
    with psycopg.connect(host=str(postgresql), user="postgres", dbname=name, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'first'").fetchall()
        begun = connection.execute(
            "SELECT sequencename FROM pg_sequences WHERE schemaname = 'public' AND last_value IS NOT NULL"
        ).fetchall()
        statements = ["SET session_replication_role TO replica"]  # without the checks of foreign keys
        statements += [f"DELETE FROM {each}; INSERT INTO {each} TABLE first.{each}" for (each,) in tables]
        statements += [f"ALTER SEQUENCE {each} RESTART" for (each,) in begun]
        connection.execute("; ".join(statements).encode())


def cut_off(postgresql: Path, url: str) -> None:
    """Ends the connection that has the gateway's lock, as a network or a server that restarts does."""
    with psycopg.connect(host=str(postgresql), user="postgres", dbname="postgres", autocommit=True) as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(l.pid, 5000) FROM pg_locks l JOIN pg_database d ON d.oid = l.database "
            "WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND d.datname = %s",
            [make_url(url).database],
        ).fetchall()
    assert ended == [(True,)]


def write_until_killed(url: str) -> None:
    catalog = SqlCatalog(url)
    for step in count((catalog.progress() or 0) + 1):
        rows = [attachment(number, parts_received=step) for number in range(ROWS)]
        runs = {record.id: [PartRun(step, 1, step)] for record in rows}
        catalog.checkpoint(Checkpoint(progress=step, attachments=rows, part_runs=runs, events=[HAPPENED]))
        print(step, flush=True)  # noqa: T201 - tells the test how far it is


if __name__ == "__main__":
    write_until_killed(sys.argv[1])

"""The adapters as the service finds them: each entry point fits the Protocol of its port."""

from pathlib import Path

import pytest

from adapters import memory, mqtt
from adapters.arrow_journal import ArrowJournal
from adapters.arrow_journal.archive import ArrowArchive
from adapters.delta_tables import DeltaTables
from adapters.object_store import ObjectStore
from adapters.sql_catalog import SqlCatalog
from app import plugins
from app.ports import (
    ArchivePlugin,
    CatalogDatabase,
    CatalogPlugin,
    ContentStorePlugin,
    JournalPlugin,
    TableStorePlugin,
    TransportPlugin,
)

# mypy checks the adapters against the Protocols here; the entry points hide their types.
JOURNAL: JournalPlugin = ArrowJournal
ARCHIVE: ArchivePlugin = ArrowArchive
CATALOG: CatalogPlugin = SqlCatalog
CONTENT_STORE: ContentStorePlugin = ObjectStore
TABLE_STORE: TableStorePlugin = DeltaTables
TRANSPORTS: dict[str, TransportPlugin] = {"memory": memory.plugin, "mqtt": mqtt.plugin}


def test_each_look_up_finds_the_adapter_of_its_port() -> None:
    assert plugins.journal() is JOURNAL
    assert plugins.archive() is ARCHIVE
    assert plugins.catalog() is CATALOG
    assert plugins.content_store() is CONTENT_STORE
    assert plugins.table_store() is TABLE_STORE
    assert {name: plugins.transport(name) for name in TRANSPORTS} == TRANSPORTS


@pytest.mark.parametrize("find", [plugins.journal, plugins.catalog, plugins.table_store])
def test_an_unknown_adapter_is_named_with_the_known_ones(find: object) -> None:
    assert callable(find)
    with pytest.raises(plugins.PluginError, match=r"unknown .* 'paper'; known: (arrow|sql|delta)$"):
        find("paper")


def test_a_catalog_is_opened_and_its_database_examined(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'catalog.sqlite'}"
    database: CatalogDatabase = plugins.catalog().database(url)
    assert not database.exists()
    plugins.catalog()(url).close()
    assert database.exists()
    assert database.is_empty()

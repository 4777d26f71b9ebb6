"""What the numbering of messages on arrival must know when it begins again."""

from collections.abc import Mapping

from sqlalchemy import delete, func, select

from adapters.sql_catalog.parts.part import CatalogPart
from adapters.sql_catalog.schema import catalog_tables
from app.model.attachment import AttachmentState

_counting, _attachments, _messages = catalog_tables.counting, catalog_tables.attachments, catalog_tables.messages

KEPT = 10_000
"""Subjects of a source that are kept when there are twice as many."""


class Numbering(CatalogPart):
    """`app.ports.NumberingCatalog` over SQL."""

    def counting(self, source: str) -> dict[str, str]:
        of_source = select(_counting.c.subject, _counting.c.rules).where(_counting.c.source == source)
        with self._database.read() as connection:
            rows = connection.execute(of_source.order_by(_counting.c.learned))
            return {row.subject: row.rules for row in rows}

    def learn_counting(self, source: str, rules: Mapping[str, str]) -> None:
        new = self._database.insert(_counting)
        save = new.on_conflict_do_update(
            index_elements=["source", "subject"], set_={"rules": new.excluded.rules, "learned": new.excluded.learned}
        )
        mine = _counting.c.source == source
        with self._database.write() as connection:
            newest, known = connection.execute(
                select(func.coalesce(func.max(_counting.c.learned), 0), func.count()).where(mine)
            ).one()
            rows = [
                {"source": source, "subject": subject, "rules": text, "learned": newest + number}
                for number, (subject, text) in enumerate(rules.items(), 1)
            ]
            if rows:
                connection.execute(save, rows)
            if known + len(rows) > 2 * KEPT:
                last = select(_counting.c.learned).where(mine).order_by(_counting.c.learned.desc())
                oldest = connection.scalar(last.offset(KEPT - 1).limit(1))
                connection.execute(delete(_counting).where(mine, _counting.c.learned < oldest))

    def open_correl_ids(self, source: str) -> dict[bytes, int]:
        receiving = select(_attachments.c.message_id).where(
            _attachments.c.source == source, _attachments.c.state == AttachmentState.RECEIVING.value
        )
        found = (
            select(_messages.c.header_position, _messages.c.header_correl_id, _attachments.c.correl_id)
            .join(_attachments, _attachments.c.message_id == _messages.c.id)
            .where(_messages.c.id.in_(receiving))
        )
        with self._database.read() as connection:
            rows = connection.execute(found)
            return {each: row.header_position for row in rows for each in (row.header_correl_id, row.correl_id)}

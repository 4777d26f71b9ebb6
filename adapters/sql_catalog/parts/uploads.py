"""Resumable uploads. Clients rely on what they were told, so every write that they learn of is durable on return."""

from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, delete, func, insert, select, update

from adapters.sql_catalog.listing_pages import Listing, fetch_page
from adapters.sql_catalog.parts.part import CatalogPart, among
from adapters.sql_catalog.schema.catalog_tables import upload_pieces, uploads
from adapters.sql_catalog.schema.record_rows import reads
from app.model.uploads import (
    QuotaExceeded,
    TooManyUploads,
    UploadLimits,
    UploadPiece,
    UploadRecord,
    UploadSuperseded,
)
from app.ports import Page, UploadTotals


@reads(uploads)
def _record(row: Row[Any]) -> UploadRecord:
    return UploadRecord(**row._mapping)


_NEWEST = Listing(uploads.c.created_at, uploads.c.id, _record)


class UploadsPart(CatalogPart):
    """`UploadCatalog` of `app.ports.catalog` over SQL."""

    def add_upload(self, upload: UploadRecord, limits: UploadLimits) -> None:
        of_owner = uploads.c.owner == upload.owner
        announced = replace(upload, held=upload.length or 0)
        with self._database.write(durable=True) as connection:
            for name, most, wanted in (
                ("resumable_uploads", limits.uploads, select(func.count()).select_from(uploads)),
                ("resumable_uploads_a_client", limits.uploads_of_owner, select(func.count()).where(of_owner)),
            ):
                if (there := connection.scalar(wanted) or 0) >= most:
                    raise TooManyUploads(f"there are {there} uploads, and limits.{name} allows {most}", most, there)
            used = _held(connection, of_owner)
            if used + announced.held > limits.bytes_of_owner:
                raise QuotaExceeded(limits.bytes_of_owner, used)
            connection.execute(insert(uploads).values(asdict(announced)))

    def upload(self, upload_id: str) -> UploadRecord | None:
        return self._one(_of(upload_id), _record)

    def uploads(self, owner: str | None, now: int, cursor: str | None, limit: int) -> Page[UploadRecord]:
        statement = select(uploads).where(uploads.c.expires_at > now)
        if owner is not None:
            statement = statement.where(uploads.c.owner == owner)
        with self._database.read() as connection:
            return fetch_page(connection, _NEWEST, statement, cursor, limit)

    def take_upload(self, upload_id: str) -> UploadRecord:
        with self._database.write(durable=True) as connection:
            if (row := connection.execute(_of(upload_id)).first()) is None:
                raise KeyError(upload_id)
            found = _record(row)
            taken = replace(found, turn=found.turn + 1, held=max(found.length or 0, found.received))
            return _write(connection, taken)

    def reserve_upload(self, upload: UploadRecord, least: int, most: int, limit: int) -> UploadRecord:
        with self._database.write() as connection:
            now = _current(connection, upload)
            used = _held(connection, uploads.c.owner == now.owner, uploads.c.id != now.id)
            if used + least > limit:
                raise QuotaExceeded(limit, used + now.received)
            held = max(now.length or 0, now.received, min(most, limit - used))
            return _write(connection, replace(now, held=held))

    def change_upload(self, changed: UploadRecord) -> UploadRecord:
        with self._database.write(durable=True) as connection:
            now = _current(connection, changed)
            held = max(now.held, changed.length or 0)
            learnt = replace(now, length=changed.length, repr_digest=changed.repr_digest, held=held)
            return _write(connection, replace(learnt, is_checked=changed.is_checked))

    def add_upload_piece(self, upload: UploadRecord, size: int) -> UploadRecord:
        with self._database.write(durable=True) as connection:
            now = _current(connection, upload)
            piece = UploadPiece(now.received, size, now.turn)
            connection.execute(insert(upload_pieces).values(upload_id=now.id, **piece._asdict()))
            received = now.received + size
            return _write(connection, replace(now, received=received, held=max(now.held, received)))

    def upload_pieces(self, upload_id: str) -> list[UploadPiece]:
        columns = upload_pieces.c.offset, upload_pieces.c.size, upload_pieces.c.turn
        pieces = select(*columns).where(upload_pieces.c.upload_id == upload_id).order_by(upload_pieces.c.offset)
        return self._all(pieces, UploadPiece._make)

    def expire_upload(self, upload_id: str, at: int) -> None:
        sooner = update(uploads).where(uploads.c.id == upload_id, uploads.c.expires_at > at)
        self._execute(sooner.values(expires_at=at, turn=uploads.c.turn + (0 if at else 1)), durable=True)

    def expired_uploads(self, now: int, limit: int) -> list[UploadRecord]:
        expired = select(uploads).where(uploads.c.expires_at <= now)
        return self._all(expired.order_by(uploads.c.expires_at).limit(limit), _record)

    def drop_upload(self, upload_id: str) -> None:
        with self._database.write() as connection:
            connection.execute(delete(upload_pieces).where(upload_pieces.c.upload_id == upload_id))
            connection.execute(delete(uploads).where(uploads.c.id == upload_id))

    def unknown_uploads(self, upload_ids: list[str]) -> list[str]:
        with self._database.read() as connection:
            known = set(connection.scalars(select(uploads.c.id).where(among(connection, uploads.c.id, upload_ids))))
        return [each for each in upload_ids if each not in known]

    def upload_totals(self) -> UploadTotals:
        with self._database.read() as connection:
            count, received = connection.execute(select(func.count(), func.sum(uploads.c.received))).one()
        return UploadTotals(count, int(received or 0))


def _of(upload_id: str) -> Select[Any]:
    return select(uploads).where(uploads.c.id == upload_id)


def _held(connection: Connection, *which: ColumnElement[bool]) -> int:
    """Return the bytes that count for the owner of these uploads."""
    return int(connection.scalar(select(func.sum(uploads.c.held)).where(*which)) or 0)


def _current(connection: Connection, upload: UploadRecord) -> UploadRecord:
    """Return an upload as it is now, if it has the turn of this record. Raises KeyError and UploadSuperseded."""
    if (row := connection.execute(_of(upload.id)).first()) is None:
        raise KeyError(upload.id)
    if row.turn != upload.turn:
        raise UploadSuperseded("a newer request continues this upload")
    return _record(row)


def _write(connection: Connection, upload: UploadRecord) -> UploadRecord:
    connection.execute(update(uploads).where(uploads.c.id == upload.id).values(asdict(upload)))
    return upload

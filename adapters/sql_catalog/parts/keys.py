"""API keys. Clients rely on them, so every change but the last use is durable on return."""

from collections.abc import Mapping
from secrets import token_bytes
from typing import Any

from sqlalchemy import BigInteger, Row, bindparam, insert, or_, select, update

from adapters.sql_catalog.parts.part import CatalogPart
from adapters.sql_catalog.schema.bounded_types import AnyText
from adapters.sql_catalog.schema.catalog_tables import api_keys, shared_secrets
from adapters.sql_catalog.schema.record_rows import reads
from app.model.principals import ApiKey, Scope

_SETS = ("scopes", "sources", "destinations")


class KeysPart(CatalogPart):
    """`app.ports.catalog.keys` over SQL."""

    def add_key(self, key: ApiKey) -> None:
        taken = [api_keys.c.id == key.id]
        if key.revoked_at is None:
            taken.append((api_keys.c.name == key.name) & api_keys.c.revoked_at.is_(None))
        same = select(api_keys.c.id).where(or_(*taken))
        values = {column.name: getattr(key, column.name) for column in api_keys.c}
        for name in _SETS:
            values[name] = None if values[name] is None else sorted(values[name])
        with self._database.write(durable=True) as connection:
            if connection.execute(same).first() is not None:
                raise ValueError(f"there is a key with the name {key.name!r} already")
            connection.execute(insert(api_keys).values(values))

    def api_keys(self) -> list[ApiKey]:
        return self._all(select(api_keys).order_by(api_keys.c.created_at, api_keys.c.id), api_key)

    def revoke_key(self, key_id: str, now: int) -> bool:
        unrevoked = update(api_keys).where(api_keys.c.id == key_id, api_keys.c.revoked_at.is_(None))
        return bool(self._execute(unrevoked.values(revoked_at=now), durable=True))

    def keys_used(self, times: Mapping[str, int]) -> None:
        if not times:
            return
        at = bindparam("at", type_=BigInteger())
        used = (
            update(api_keys)
            .where(api_keys.c.id == bindparam("key", type_=AnyText))
            .where(or_(api_keys.c.last_used_at.is_(None), api_keys.c.last_used_at < at))
            .values(last_used_at=at)
        )
        with self._database.write() as connection:
            connection.execute(used, [{"key": key, "at": time} for key, time in times.items()])

    def shared_secret(self, name: str, size: int) -> bytes:
        known = select(shared_secrets.c.value).where(shared_secrets.c.name == name)
        if (found := self._one(known, lambda row: bytes(row.value))) is not None:
            return found
        made = self._database.insert(shared_secrets).values(name=name, value=token_bytes(size))
        with self._database.write(durable=True) as connection:
            connection.execute(made.on_conflict_do_nothing())
            return bytes(connection.scalar(known) or b"")


@reads(api_keys)
def api_key(row: Row[Any]) -> ApiKey:
    """Return the key of a row of `api_keys`."""
    values = dict(row._mapping)
    for name in _SETS:
        values[name] = None if values[name] is None else frozenset(values[name])
    values["scopes"] = frozenset(Scope(scope) for scope in values["scopes"] if scope in set(Scope))
    return ApiKey(**values)

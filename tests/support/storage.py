"""Servers for catalog, content and archive of the gateways in end-to-end tests."""

from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex

import psycopg

from tests.support import object_server


class Servers:
    """PostgreSQL and S3, for gateways in this process's tests. Each data folder has a database and a bucket."""

    def __init__(self, postgresql: Path, object_store: int) -> None:
        self._postgresql, self._object_store = postgresql, object_store
        self._made: dict[Path, Mapping[str, str]] = {}

    def environment(self, folder: Path) -> Mapping[str, str]:
        """Return the variables of a gateway with this folder; after a restart they are the same."""
        if folder not in self._made:
            self._made[folder] = self._make()
        return self._made[folder]

    def _make(self) -> Mapping[str, str]:
        name = f"gateway{token_hex(6)}"
        with psycopg.connect(f"host={self._postgresql} user=postgres dbname=postgres", autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        bucket = object_server.Bucket(self._object_store, name)
        return object_server.environment(self._object_store) | {
            "ATTACHMENT_GATEWAY_CATALOG__URL": f"postgresql+psycopg://postgres@/{name}?host={self._postgresql}",
            "ATTACHMENT_GATEWAY_CONTENT__URL": f"{bucket.url}/content",
            "ATTACHMENT_GATEWAY_JOURNAL__ARCHIVE_URL": f"{bucket.url}/archive",
        }

"""The places where gateways keep what they have: each test of `storage` runs with both kinds.

STORAGE=servers runs every test of this folder with PostgreSQL and S3.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex

import pytest

from tests.support import object_server
from tests.support.gateway import GatewayProcess
from tests.support.postgresql import new_database


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
        bucket = object_server.Bucket(self._object_store, f"gateway{token_hex(6)}")
        return object_server.environment(self._object_store) | {
            "ATTACHMENT_GATEWAY_CATALOG__URL": new_database(self._postgresql),
            "ATTACHMENT_GATEWAY_CONTENT__URL": f"{bucket.url}/content",
            "ATTACHMENT_GATEWAY_JOURNAL__ARCHIVE_URL": f"{bucket.url}/archive",
        }


@pytest.fixture
def servers(postgresql: Path, object_store: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have gateways use PostgreSQL and S3."""
    monkeypatch.setattr(GatewayProcess, "storage", staticmethod(Servers(postgresql, object_store).environment))


@pytest.fixture(params=["folder", pytest.param("servers", marks=pytest.mark.database)])
def storage(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    if kind == "servers":
        request.getfixturevalue("servers")
    return kind


@pytest.fixture(autouse=True)
def storage_of_all(request: pytest.FixtureRequest) -> None:
    if os.environ.get("STORAGE") == "servers":
        request.getfixturevalue("servers")

"""The places where gateways keep what they have: each test of `storage` runs with both kinds.

STORAGE=servers runs every test of this folder with PostgreSQL and S3.
"""

import os
from pathlib import Path

import pytest

from tests.support.gateway import GatewayProcess
from tests.support.storage import Servers


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

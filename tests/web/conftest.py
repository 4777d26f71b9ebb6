from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from app.web.app import create_app
from tests.support.length import IS_LONG
from tests.web.stock import Stock, serving

REPLICAS = 3 if IS_LONG else 1
"""What answers the tests' client: in the long form any of three processes, which share the stores only."""


@contextmanager
def stocked(folder: Path) -> Iterator[Stock]:
    stock = Stock(folder)
    yield stock
    stock.close()


@contextmanager
def connected(stock: Stock, replicas: int = 1) -> Iterator[httpx.Client]:
    """A client of the stock's gateway, through uvicorn and a socket; or of replicas, each request of one of them."""
    gateways = [stock.gateway, *(stock.replica() for _ in range(replicas - 1))]
    with (
        serving(*map(create_app, gateways)) as address,
        httpx.Client(base_url=address, timeout=30, verify=False) as client,
    ):
        yield client


@pytest.fixture
def stock(tmp_path: Path) -> Iterator[Stock]:
    with stocked(tmp_path) as stock:
        yield stock


@pytest.fixture
def one_process() -> None:
    """What a test uses that asks for what a process has for itself: its journal, its metrics, what it is doing."""


@pytest.fixture
def http(stock: Stock, request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    with connected(stock, 1 if "one_process" in request.fixturenames else REPLICAS) as client:
        yield client


@pytest.fixture(scope="module")
def shared_stock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stock]:
    """One for all tests of a module that leave it as it was."""
    with stocked(tmp_path_factory.mktemp("shared")) as stock:
        yield stock


@pytest.fixture(scope="module")
def shared_http(shared_stock: Stock) -> Iterator[httpx.Client]:
    with connected(shared_stock, REPLICAS) as client:
        yield client

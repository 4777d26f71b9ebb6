from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from app.web.app import create_app
from tests.web.stock import Stock, serving


@contextmanager
def stocked(folder: Path) -> Iterator[Stock]:
    stock = Stock(folder)
    yield stock
    stock.close()


@contextmanager
def connected(stock: Stock) -> Iterator[httpx.Client]:
    with (
        serving(create_app(stock.gateway)) as address,
        httpx.Client(base_url=address, timeout=30, verify=False) as client,
    ):
        yield client


@pytest.fixture
def stock(tmp_path: Path) -> Iterator[Stock]:
    with stocked(tmp_path) as stock:
        yield stock


@pytest.fixture
def http(stock: Stock) -> Iterator[httpx.Client]:
    """A client of the stock's gateway, through uvicorn and a socket."""
    with connected(stock) as client:
        yield client


@pytest.fixture(scope="module")
def shared_stock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stock]:
    """One for all tests of a module that leave it as it was."""
    with stocked(tmp_path_factory.mktemp("shared")) as stock:
        yield stock


@pytest.fixture(scope="module")
def shared_http(shared_stock: Stock) -> Iterator[httpx.Client]:
    with connected(shared_stock) as client:
        yield client

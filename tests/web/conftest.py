from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.web.api import create_app
from tests.web.stock import Stock, serving


@pytest.fixture
def stock(tmp_path: Path) -> Iterator[Stock]:
    stock = Stock(tmp_path)
    yield stock
    stock.close()


@pytest.fixture
def http(stock: Stock) -> Iterator[httpx.Client]:
    """A client of the stock's gateway, through uvicorn and a socket."""
    with serving(create_app(stock.gateway)) as address, httpx.Client(base_url=address, timeout=30) as client:
        yield client

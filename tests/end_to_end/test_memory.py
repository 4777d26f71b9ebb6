"""Memory depends neither on an attachment's size nor on how many are unfinished; bench.memory shows it at full size."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.memory import TOPIC, data_set, large, peak_without_files, unfinished
from tests.support.gateway import GatewayProcess, mqtt_destination, mqtt_source
from tests.support.mosquitto import Mosquitto

pytestmark = pytest.mark.broker

MOST = 220
"""MiB that a gateway may take besides the files of its libraries, whatever comes."""

LEAST = 60
"""MiB that a gateway takes at least. With an attachment of the difference in memory it would take too many."""

MOST_WITH_TABLES = 320
"""The same where tables are made: Arrow's and Parquet's buffers come on top."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path) as broker:
        yield broker


@pytest.fixture
def process(tmp_path: Path, broker: Mosquitto) -> Iterator[GatewayProcess]:
    back = mqtt_destination("back", broker.port, TOPIC)
    with GatewayProcess(tmp_path, back + mqtt_source("memory", broker.port, TOPIC)) as process:
        process.await_source("memory")
        yield process


def test_a_large_attachment_there_and_back(process: GatewayProcess, tmp_path: Path) -> None:
    large(process, tmp_path, MOST - LEAST)
    assert peak_without_files(process) < MOST


def test_a_data_set_of_many_rows_out_in_every_format(process: GatewayProcess, tmp_path: Path) -> None:
    data_set(process, tmp_path, 2_000_000)
    assert peak_without_files(process) < MOST_WITH_TABLES


def test_many_unfinished_attachments(process: GatewayProcess, broker: Mosquitto) -> None:
    unfinished(process, broker.port, 10_000)
    assert peak_without_files(process) < MOST

"""Memory depends neither on an attachment's size nor on how many are unfinished; bench.memory shows it at full size."""

from pathlib import Path

from bench.memory import TOPIC, large, peak, unfinished
from tests.support.gateway import GatewayProcess, mqtt_source
from tests.support.mosquitto import Mosquitto

MOST = 300
"""MiB that a gateway may take, whatever comes."""


def test_a_large_attachment_there_and_back_and_many_unfinished_ones(tmp_path: Path) -> None:
    with Mosquitto(tmp_path) as broker:
        back = f'[destinations.back]\ntransport = "mqtt"\nurl = "mqtt://127.0.0.1:{broker.port}"\ntopic = "{TOPIC}"\n'
        with GatewayProcess(tmp_path, back + mqtt_source("memory", broker.port, TOPIC)) as process:
            process.await_source("memory")
            unfinished(process, broker.port, 10_000)
            large(process, tmp_path, 320)
            assert peak(process) < MOST

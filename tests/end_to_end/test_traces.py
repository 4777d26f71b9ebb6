"""One trace from a sender's span to the delivery that follows, over a real broker and a restart."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from app.model.trace_context import TRACE_PARENT, TraceContext
from tests.support.forked_gateway import ForkedGateway
from tests.support.gateway import GatewayProcess, mqtt_destination, mqtt_source
from tests.support.mosquitto import Mosquitto
from tests.support.otlp_receiver import receiving
from tests.support.publish import publish
from tests.support.sas_client import Program, binary_file, message

pytestmark = pytest.mark.broker

TRACE = "0af7651916cd43dd8448eb211c80319c"
SENDER = TraceContext(TRACE, "b7ad6b7169203331", is_sampled=True)


def exporting(folder: Path, settings: str, environment: dict[str, str]) -> ForkedGateway:
    class Exporting(ForkedGateway):
        storage = staticmethod(lambda _folder: environment)

    return Exporting(folder, settings)


def finished(gateway: GatewayProcess, source: str) -> dict[str, Any]:
    gateway.until(lambda: gateway.listing("/v1/attachments", source=source, state="finished"))
    (found,) = gateway.listing("/v1/attachments", source=source)
    return found


def test_a_trace_goes_from_the_sender_over_a_restart_to_the_delivery(tmp_path: Path) -> None:
    with Mosquitto(tmp_path) as broker, receiving() as collector:
        settings = (
            mqtt_source("orders", broker.port, "in/orders")
            + mqtt_source("returns", broker.port, "out/orders")
            + mqtt_destination("partner", broker.port, "out/orders")
            + "[traces]\nenabled = true\n"
        )
        with exporting(tmp_path, settings, collector.environment) as gateway:
            gateway.await_source("orders")
            gateway.await_source("returns")
            header, *others = message(Program(Random(5)), [binary_file(Program(Random(6)), "a.bin", b"x" * 70_000)])
            traced = header._replace(properties={TRACE_PARENT: str(SENDER), "tracestate": "a=b"})
            # Parts may have anything: only the header counts.
            publish(
                [traced, *(each._replace(properties={TRACE_PARENT: "00-x"}) for each in others[:-1])],
                broker.port,
                "in/orders",
                "5",
            )
            gateway.until(lambda: gateway.listing("/v1/attachments", source="orders"))
            gateway.kill()
            gateway.start()
            gateway.await_source("orders")
            gateway.await_source("returns")
            publish(others[-1:], broker.port, "in/orders", "5")
            received = finished(gateway, "orders")
            assert received["trace_parent"] == str(SENDER)

            files = {"file": ("b.bin", b"y" * 50_000, "application/octet-stream")}
            for valid in (True, False):
                told = {TRACE_PARENT: received["trace_parent"] if valid else f"{SENDER}-more"}
                sent = (
                    gateway.client.post("/v1/messages", data={"destination": "partner"}, files=files, headers=told)
                    .raise_for_status()
                    .json()
                )
                assert (sent["trace_parent"] is not None) == valid
                if valid:
                    delivery = sent
                    returned = finished(gateway, "returns")
            gateway.until(lambda: len(collector.of_trace(TRACE)) >= 6)

            told_events = [each for each in cloud_events(gateway) if each["subject"] == received["id"]]
            assert [each["traceparent"] for each in told_events] == [str(SENDER)]

        spans = collector.of_trace(TRACE)
        names = {each.name: each for each in spans.values() if each.attributes.get(SOURCE) != "returns"}
        assert names.keys() == {"receive in/orders", "process in/orders", "POST /v1/messages", "send out/orders"}
        receive, process = names["receive in/orders"], names["process in/orders"]
        request, send = names["POST /v1/messages"], names["send out/orders"]
        (received_again,) = (each for each in spans.values() if each.name == "receive out/orders")
        (processed_again,) = (each for each in spans.values() if each.name == "process out/orders")
        assert len(spans) == 6
        # sender -> receive -> process; sender -> request -> send -> receive -> process
        assert [receive.parent, request.parent] == [SENDER.span_id] * 2
        assert (process.parent, send.parent) == (receive.span_id, request.span_id)
        assert (received_again.parent, processed_again.parent) == (send.span_id, received_again.span_id)
        assert delivery["trace_parent"] == str(SENDER._replace(span_id=request.span_id))
        assert returned["trace_parent"] == str(SENDER._replace(span_id=send.span_id))
        assert {each.service for each in spans.values()} == {"attachment-gateway"}
        kinds = [each.kind for each in (receive, process, request, send)]
        assert kinds == ["consumer", "consumer", "server", "producer"]
        assert receive.attributes["messaging.system"] == "mqtt"
        assert receive.attributes["messaging.destination.name"] == "in/orders"
        assert receive.attributes["messaging.operation.type"] == "receive"
        assert receive.attributes["messaging.batch.message_count"] == received["progress"]["parts_received"]
        assert process.attributes["messaging.message.body.size"] == 70_000
        assert request.attributes["http.route"] == "/v1/messages"
        assert request.attributes["http.response.status_code"] == 202
        assert send.attributes["messaging.batch.message_count"] > 2
        assert all(each.start <= each.end and not each.error for each in spans.values())
        assert logged(gateway, "attachment_finished", received["id"])["trace_id"] == TRACE
        assert logged(gateway, "delivery_sent", delivery["id"])["trace_id"] == TRACE
        assert "traceparent" not in gateway.log


SOURCE = "attachment_gateway.source"


def cloud_events(gateway: GatewayProcess) -> list[dict[str, Any]]:
    """Return all events until now."""
    found = []
    with gateway.client.stream("GET", "/v1/events?after=0") as response:
        for line in response.iter_lines():
            if line.startswith("data: "):
                found.append(json.loads(line.removeprefix("data: ")))
                if found[-1]["type"] == "attachment.finished":
                    return found
    return found


def logged(gateway: GatewayProcess, event: str, subject: str) -> dict[str, Any]:
    lines = [json.loads(line) for line in gateway.log.splitlines() if line.startswith("{")]
    (found,) = (each for each in lines if each["event"] == event and each.get("id") == subject)
    return dict(found)

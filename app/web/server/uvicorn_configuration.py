"""The configuration of uvicorn: an application at a port, with limited connections, and TLS if it has a certificate."""

import resource
import sys
from functools import partial
from time import time
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.model.times import http_date
from app.settings import Http
from app.web.server.certificate import CERTIFICATE_SECONDS, Certificate
from app.web.server.deadline import EVENT_STREAM
from app.web.server.file_sending import ZERO_COPY_SEND
from app.web.server.http_protocol import (
    ENDLESS,
    HEALTH_PLACES,
    HEALTH_PLACES_A_CLIENT,
    SEND_FILE,
    LimitedProtocol,
)
from app.web.server.open_connections import ConnectionPlaces
from app.web.server.tls_handshake import TlsHandshake

OTHER_DESCRIPTORS = 200
"""Descriptors reserved for files, brokers and databases."""


def configuration(app: FastAPI, http: Http, **more: Any) -> uvicorn.Config:
    """Return uvicorn's configuration for the application, with limited connections.

    Raises GatewayError for a certificate that cannot be used.
    """
    # The limit of descriptors is not raised: clients of brokers use `select`, which cannot have those above 1023.
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptors = sys.maxsize if most == resource.RLIM_INFINITY else max(most, OTHER_DESCRIPTORS + 1)
    limits = http.model_copy(update={"connections": min(http.connections, descriptors - OTHER_DESCRIPTORS)})
    places = ConnectionPlaces(limits.connections, limits.connections_a_client)
    health_places = ConnectionPlaces(HEALTH_PLACES, HEALTH_PLACES_A_CLIENT)

    class Limited(LimitedProtocol):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self.limits, self.places, self.health_places = limits, places, health_places

    protocol: Any = Limited
    if http.cert_file is not None:
        certificate = Certificate(http)
        more |= {"callback_notify": certificate.refresh, "timeout_notify": CERTIFICATE_SECONDS}

        def protocol(**named: Any) -> TlsHandshake:
            return TlsHandshake(certificate.context, partial(Limited, **named))

    return uvicorn.Config(
        dated(app),
        http.host,
        http.port,
        http=protocol,
        ws="none",
        log_config=None,
        access_log=False,
        date_header=False,
        **more,
    )


def dated(app: ASGIApp) -> ASGIApp:
    """Return an application whose responses have the time of their beginning as `Date`.

    That of uvicorn is up to a second old. It could be before a `Last-Modified`, which RFC 9110 forbids (8.8.2.1).
    """

    async def with_date(scope: Scope, receive: Receive, send: Send) -> None:
        async def add_date(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [(b"date", http_date(int(time())).encode()), *message.get("headers", ())]
                if ENDLESS in scope and Headers(raw=message["headers"]).get("content-type", "").startswith(
                    EVENT_STREAM
                ):
                    scope[ENDLESS]()
            elif message["type"] == ZERO_COPY_SEND:
                await scope[SEND_FILE](message)
                return
            await send(message)

        await app(scope, receive, add_date)

    return with_date

"""The imports of the process that `tests.support.forked_gateway` forks: all that a gateway would load for its first
message and its first request, too. pyarrow loads pandas where it is installed."""

import os

import anyio._backends._asyncio
import anyio.streams.memory  # noqa: F401
import pandas as pd  # noqa: F401
import psycopg  # noqa: F401
import uvicorn.lifespan.on
import uvicorn.loops.uvloop  # noqa: F401

from tests.support.mqi import load

load("ibmmq" if os.environ.get("FORKED_WITH") == "ibmmq" else "pymqi")

import adapters.arrow_journal  # noqa: E402
import adapters.ibm_mq.plugin  # noqa: E402
import adapters.mqtt  # noqa: E402
import adapters.object_store  # noqa: E402
import adapters.rendezvous  # noqa: E402
import adapters.sql_catalog  # noqa: E402, F401
import app.cli.application  # noqa: E402
import app.main  # noqa: E402
import app.service.sending.framer  # noqa: E402
import app.web.app  # noqa: E402

for command in app.cli.application.COMMANDS:
    app.cli.application.loaded(command)

app.web.app.WARM_AFTER_SECONDS = 3600.0  # most of these gateways convert nothing

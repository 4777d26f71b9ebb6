"""The OpenAPI document, as programs take it that check it and that make clients of it.

They are run by uv and npx, which fetch them; where there is no network, or no npm, the tests are skipped and say so.
"""

import asyncio
import json
import shutil
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import pytest
from fastapi import FastAPI
from pydantic import StringConstraints, TypeAdapter, ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.model.attachment import AttachmentKind
from app.model.validation import SENTENCES, sentence
from app.web.app import create_app
from app.web.resources.field_descriptions import SPECIAL, WORDS
from app.web.resources.uploads import tus
from tests.support.fetched import UV, ran
from tests.support.schemathesis import TOKEN, assert_conforms
from tests.support.tables import parquet, pupils
from tests.web.stock import Stock, serving

PARQUET = "application/vnd.apache.parquet"


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("described")
    stock = Stock(folder / "data")
    path = folder / "openapi.json"
    path.write_text(json.dumps(create_app(stock.gateway).openapi()))
    yield path
    stock.close()


@pytest.mark.process
def test_it_is_valid(document: Path) -> None:
    tool = ("tool", "run", "--from", "openapi-spec-validator==0.9.0", "openapi-spec-validator")
    said = ran(UV, *tool, "--schema", "3.1", document, folder=document.parent)
    assert "OK" in said


def test_every_operation_declares_that_it_may_be_unavailable(document: Path) -> None:
    """A gateway that starts, stops, stands by or has lost its catalog answers any of them so."""
    for path, operations in json.loads(document.read_text())["paths"].items():
        for method, operation in operations.items():
            declared = operation["responses"].get("503", {}).get("content", {}).get("application/problem+json", {})
            assert "unavailable" in declared.get("examples", {}), (method, path)
            is_of_any = path.startswith("/health") or path == "/metrics"
            assert ("not-served" in declared["examples"]) == (not is_of_any), (method, path)
            assert "not-served" in operation["responses"]["503"]["headers"]["Retry-After"]["description"]


def test_every_field_has_a_description_and_every_word_is_used(document: Path) -> None:
    schemas = json.loads(document.read_text())["components"]["schemas"]
    fields = {
        (schema, field): about
        for schema, each in schemas.items()
        for field, about in each.get("properties", {}).items()
    }
    assert not [field for field, about in fields.items() if len(about.get("description", "")) < 5]
    given = {about["description"] for about in fields.values()}
    assert not [word for word, meaning in (*WORDS.items(), *SPECIAL.items()) if meaning not in given]


USING = """
import sys
from io import BytesIO

from client import AuthenticatedClient
from client.api.attachments import get_attachment_content, list_attachments
from client.api.messages import send_file
from client.types import UNSET, File

with AuthenticatedClient(base_url=sys.argv[1], token="any") as client:
    names, cursor = [], UNSET
    while cursor is not None:
        page = list_attachments.sync(client=client, cursor=cursor, limit=2)
        names += [attachment.name for attachment in page.items]
        cursor = page.next_
    sent = send_file.sync("partner", "a.txt", client=client, body=File(payload=BytesIO(b"sent")))
    part = AuthenticatedClient(base_url=sys.argv[1], token="any", headers={"Range": "bytes=2-4"})
    range_ = get_attachment_content.sync_detailed(page.items[-1].id, client=part)
    print(len(names), sent.state, range_.status_code.value, range_.parsed.payload.read())
"""


@pytest.mark.process
def test_a_python_client_can_be_made_and_used(document: Path, stock: Stock) -> None:
    """It follows a listing, sends a file and fetches a range."""
    tool = ("tool", "run", "--from", "openapi-python-client==0.29.1", "openapi-python-client")
    made = document.parent / "client"
    # It knows no other name for bytes than octet-stream.
    config = document.parent / "config.json"
    config.write_text(json.dumps({"content_type_overrides": {tus.MEDIA_TYPE: "application/octet-stream"}}))
    how = ("--path", document, "--output-path", made, "--meta", "none", "--config", config)
    said = ran(UV, *tool, "generate", *how, folder=document.parent)
    assert "WARNING" not in said, said
    for _ in range(5):
        stock.stored(b"0123456789")
    with serving(create_app(stock.gateway)) as address:
        used = ran(sys.executable, "-c", USING, address, folder=document.parent)
    assert used == "5 queued 206 b'234'\n"


USING_TYPES = """
import createClient from "openapi-fetch"
import type { paths } from "./types"

declare const process: { argv: string[] }
const client = createClient<paths>({ baseUrl: process.argv[2] })

const stream = await client.GET("/v1/events", { params: { query: { type: ["delivery.*"] } }, parseAs: "stream" })
const events = stream.data!.pipeThrough(new TextDecoderStream()).getReader()

const page = await client.GET("/v1/attachments", { params: { query: { name: "digits.bin" } } })
const [attachment] = page.data!.items
const range = await client.GET("/v1/attachments/{attachment_id}/content", {
  params: { path: { attachment_id: attachment.id } },
  headers: { Range: "bytes=2-4" },
  parseAs: "text",
})
const sent = await client.PUT("/v1/files/{destination}/{name}", {
  params: { path: { destination: "partner", name: "a.txt" } },
  headers: { "Content-Type": "application/octet-stream" },
  body: "sent",
  bodySerializer: (body) => body,
})
const refused = await client.GET("/v1/attachments", { params: { query: { limit: 0 } } })

let text = ""
while (!text.includes("data: ")) text += (await events.read()).value
await events.cancel()
const event = JSON.parse(text.split("data: ")[1])

// @ts-expect-error: an attachment has no such member
attachment.filename
// @ts-expect-error: the state of a delivery is one of the words that are described
if (sent.data!.state === "gone") throw sent
// @ts-expect-error: the content of an attachment is asked for with its identifier
const incomplete = () => client.GET("/v1/attachments/{attachment_id}/content")

console.log(range.response.status, range.data, sent.data!.state, event.type, event.subject === sent.data!.id)
console.log(refused.response.status, refused.error!.type)
"""
PACKAGES = ("openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5.9.3")


@pytest.mark.process
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is missing: openapi-typescript is not tried")
def test_a_typescript_client_can_be_made_and_used(document: Path, stock: Stock) -> None:
    """The compiler checks a program against the types. It follows events, fetches a range and sends a file."""
    folder = document.parent / "node"
    folder.mkdir()
    ran("npm", "install", "--no-audit", "--no-fund", "--prefix", folder, *PACKAGES, folder=folder)
    programs = folder / "node_modules" / ".bin"
    ran(programs / "openapi-typescript", document, "-o", "types.d.ts", folder=folder)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "using.ts").write_text(USING_TYPES)
    target = ("--skipDefaultLibCheck", "--target", "es2022", "--module", "preserve", "--lib", "es2022,dom")
    ran(programs / "tsc", "--strict", *target, "using.ts", folder=folder)
    stock.stored(b"0123456789", qualifier_2="digits.bin")
    with serving(create_app(stock.gateway)) as address:
        used = ran("node", "using.js", address, folder=folder)
    assert used == "206 234 queued delivery.queued true\n422 /problems/invalid\n"


def test_texts_that_do_not_match_a_pattern_are_refused_in_words(document: Path) -> None:
    """pydantic shows the pattern itself. Every pattern of a request has a sentence in its place."""
    patterns = set(_values(json.loads(document.read_text()), "pattern"))
    assert patterns
    assert patterns <= SENTENCES.keys()
    for pattern, expected in SENTENCES.items():
        with pytest.raises(ValidationError) as caught:
            TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)]).validate_python("\0")
        (error,) = caught.value.errors()
        assert sentence(error) == expected


SEVERAL_TYPES = {
    "attachments": "lists of attachments; in the summary, their number in each state",
    "column": "name of a column; the place of a cell in a page of rows",
    "encoding": "the Encoding of IBM's MQMD, a number; SAS's ENCODING= of a file, a name",
    "files": "the number of files; in an attachment, the place of each in its content",
    "maximum": "any value of a column",
    "minimum": "any value of a column",
    "reason": "a sentence; with its code where programs decide by it",
    "row": "number of a row; the row of a layout, by its name",
    "value": "any value of the data",
    "variables": "the number of variables; lists of them; what a client says of them, by name",
}
"""Names of fields that have several types, and what these mean."""


def test_a_name_has_one_type_in_all_schemas(document: Path) -> None:
    schemas = json.loads(document.read_text())["components"]["schemas"]
    types: dict[str, set[str]] = {}
    for schema in schemas.values():
        for name, field in schema.get("properties", {}).items():
            types.setdefault(name, set()).update(_types(field, schemas))
    assert {name for name, found in types.items() if len(found) > 1} == SEVERAL_TYPES.keys()
    assert "bytes" not in types, "sizes are called size"


def _types(field: dict[str, Any], schemas: dict[str, Any]) -> set[str]:
    """Return the JSON types of a field. Null says nothing of it, and a whole number is a number."""
    if "$ref" in field:
        return _types(schemas[field["$ref"].rpartition("/")[2]], schemas)
    choices = [each for key in ("anyOf", "oneOf", "allOf") for each in field.get(key, ())]
    if choices:
        return set().union(*(_types(each, schemas) for each in choices))
    if "enum" in field or "const" in field:
        return {"string"} if field.get("type", "string") == "string" else {str(field["type"])}
    given = field.get("type", "any")
    return {"number" if each == "integer" else each for each in ([given] if isinstance(given, str) else given)} - {
        "null"
    }


def _values(value: object, key: str) -> Iterator[str]:
    """Yield the texts under a key, at any depth."""
    if isinstance(value, dict):
        if isinstance(value.get(key), str):
            yield value[key]
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _values(each, key)


STREAM_SECONDS = 0.2
"""The time after which the tests end a stream of events, which the gateway never does."""


@pytest.mark.process
@pytest.mark.parametrize("which", ["--include-operation-id", "--exclude-operation-id"])
def test_schemathesis_finds_nothing(tmp_path: Path, which: str) -> None:
    stock = Stock(tmp_path / "data", http={"tokens": [sha256(TOKEN.encode()).hexdigest()]})
    data_set = stock.stored(parquet(pupils(), 10), PARQUET, kind=AttachmentKind.DATA_SET, qualifier_2="PUPILS")
    stock.message([data_set])
    stock.gateway.start()
    with serving(ending(create_app(stock.gateway))) as address:
        # send_message takes as long as all the others
        assert_conforms(address, tmp_path, "--phases", "examples,coverage", which, "send_message")
    stock.gateway.stop()


def ending(app: FastAPI) -> FastAPI:
    """Return an application whose streams of events end after `STREAM_SECONDS`."""

    class Ending:
        def __init__(self, app: ASGIApp) -> None:
            self._app = app

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            if scope.get("path") != "/v1/events":
                await self._app(scope, receive, send)
                return
            has_begun = False

            async def noting(message: Message) -> None:
                nonlocal has_begun
                has_begun = True
                await send(message)

            try:
                async with asyncio.timeout(STREAM_SECONDS):
                    await self._app(scope, receive, noting)
            except TimeoutError:
                assert has_begun
                await send({"type": "http.response.body"})

    app.add_middleware(Ending)
    return app

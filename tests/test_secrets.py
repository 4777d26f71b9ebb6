"""No secret is in what people read, and those in files are read again.

Each test puts a marker where a secret belongs, or where somebody writes it by mistake, and looks for it in what comes
out: messages of commands and of the client, errors of the libraries, lines of the log.
"""

import asyncio
import io
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from attachment_gateway_client import AsyncClient, Client, InvalidToken, Unreachable
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import from_url
from pydantic import BaseModel, SecretStr

from adapters.object_store import ObjectStore
from adapters.sql_catalog import SqlCatalog
from app import plugins
from app.main import build
from app.model.errors import GatewayError
from app.model.masking import masked
from app.observe import Recurring, configure_logging, logger
from app.secret import Changing, Secret, Words
from app.settings import Settings, SettingsError, load
from tests.cli.conftest import (
    Run,
    run,  # noqa: F401 - a fixture
)

MARKER = "m4rk3r"
AUTHORITIES = (
    f"user:{MARKER}@host",
    f"user:a{MARKER}/b@host",
    f"user:{MARKER}@{MARKER}@host",
    f"user:{MARKER}#@host",
    f"user:{MARKER}?@host",
    f"user:℀{MARKER}@host",
    f"user:[{MARKER}@host",
    f"host:{MARKER}",
)
"""Where a password can be in a URL, with characters that have a meaning there."""


def said(error: BaseException | None) -> str:
    """Return all that an error and those before it say."""
    texts = []
    while error is not None:
        texts += [str(error), repr(error)]
        error = None if error.__suppress_context__ else error.__cause__ or error.__context__
    return "\n".join(texts)


# --- the configuration --------------------------------------------------------------------------------------------

PLACES = {
    "MQTT": '[sources.a]\ntransport = "mqtt"\ntopic = "t"\nurl = "mqtt://{}"\n',
    "webhook": '[webhooks.a]\nsecrets = ["' + "A" * 32 + '"]\nurl = "https://{}"\n',
    "issuer": '[oidc]\naudience = "a"\nissuer = "ftp://{}"\n',
    "keys of an issuer": '[oidc]\naudience = "a"\nissuer = "https://i"\njwks_url = "ftp://{}"\n',
}
SOURCE = '[sources.a]\ntransport = "mqtt"\ntopic = "t"\nurl = "mqtt://h"\n'
MISTAKES = {
    "secret of a webhook": f'[webhooks.a]\nurl = "https://h"\nsecrets = ["{MARKER}"]\n',
    "password that is a list": f'{SOURCE}password = ["{MARKER}"]\n',
    "token in place of its digest": f'[http]\ntokens = ["{MARKER}"]\n',
    "token of events that is a table": f'[pipeline]\nlineage_token = {{ a = "{MARKER}" }}\n',
    "password without a user": f'{SOURCE}password = "{MARKER}"\n',
}


@pytest.mark.parametrize(
    "settings",
    [*(text.format(each) for text in PLACES.values() for each in AUTHORITIES), *MISTAKES.values()],
)
def test_a_wrong_configuration_is_told_without_secrets(run: Run, tmp_path: Path, settings: str) -> None:  # noqa: F811
    file = tmp_path / "gateway.toml"
    file.write_text(settings)
    with pytest.raises(SettingsError) as failed:
        load(file)
    assert MARKER not in said(failed.value)
    for command in (("config", "check"), ("config", "show"), ("serve",)):
        result = run(*command, "--config", file)
        assert result.code == 1
        assert MARKER not in result.out + result.err


@pytest.mark.parametrize("authority", AUTHORITIES)
@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "postgresql", "mysql", "oracle"])
def test_a_catalog_that_cannot_be_opened_is_told_without_its_password(
    tmp_path: Path, scheme: str, authority: str
) -> None:
    url = f"{scheme}://{authority}/name?connect_timeout=1&password={MARKER}&host=127.0.0.1&port=1"
    with pytest.raises((GatewayError, ValueError)) as failed:
        build(Settings(data=tmp_path, catalog={"url": url}))  # type: ignore[arg-type]
    assert MARKER not in str(failed.value)
    if scheme == "postgresql+psycopg":
        with pytest.raises((GatewayError, ValueError)) as refused:
            SqlCatalog.database(url).exists()
        assert MARKER not in str(refused.value)


# --- object stores ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "variables"),
    [
        (
            "s3://bucket/here",
            {
                "AWS_ACCESS_KEY_ID": f"{MARKER}id",
                "AWS_SECRET_ACCESS_KEY": MARKER,
                "AWS_REGION": "here",
                "AWS_ALLOW_HTTP": "true",
                "AWS_ENDPOINT": f"http://user:{MARKER}@127.0.0.1:9",
            },
        ),
        (
            "az://container/here",
            {
                "AZURE_STORAGE_ACCOUNT_NAME": "account",
                "AZURE_STORAGE_SAS_TOKEN": f"sv=2022&sig={MARKER}",
                "AZURE_STORAGE_ENDPOINT": "http://127.0.0.1:9",
                "AZURE_ALLOW_HTTP": "true",
            },
        ),
    ],
)
def test_an_object_store_that_fails_is_told_without_its_credentials(
    monkeypatch: pytest.MonkeyPatch, url: str, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("adapters.storage_places.from_url", partial(from_url, retry_config={"max_retries": 0}))
    store = ObjectStore(url)
    with pytest.raises(GatewayError) as failed:
        store.size("a")
    assert "content store failed" in str(failed.value)
    assert MARKER not in str(failed.value)


# --- texts and the log --------------------------------------------------------------------------------------------

PASSWORDS = st.text(st.characters(exclude_categories=("Z", "C")), min_size=1, max_size=20).map(
    lambda text: f"{MARKER}{text}"
)


@given(PASSWORDS, st.sampled_from(["https", "postgresql+psycopg", "mqtt", "socks5"]), st.booleans())
def test_no_password_of_a_url_stays_in_a_text(password: str, scheme: str, is_quoted: bool) -> None:
    url = f"{scheme}://user:{password}@host:80/path"
    text = f"it failed for {url!r} (reason)" if is_quoted else f"it failed for {url} (reason)"
    shown = masked(text)
    assert MARKER not in shown
    assert "it failed for" in shown
    assert "host:80/path" in shown
    assert masked(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "GET https://account.blob/c/x?sv=1&sig={}&se=2",
        "https://bucket/x?X-Amz-Credential={}&X-Amz-Signature={}",
        "Illegal header value b'Bearer {}\\n'",
        "Invalid header value: 'Basic {}=='",
        "postgresql://host/name?password={}",
    ],
)
@pytest.mark.parametrize("style", ["json", "console"])
def test_no_line_of_the_log_has_a_credential(text: str, style: str) -> None:
    text = text.replace("{}", f"{MARKER}-{MARKER}")
    stream = io.StringIO()
    before = structlog.get_config()
    configure_logging("info", style, stream)
    try:
        log = logger("test")
        log.warning("something_failed", reason=text)
        recurring = Recurring(log, "something")
        recurring.failed(text)
        try:
            raise ValueError(text)
        except ValueError as error:
            log.exception("something_failed")
            recurring.failed(error)
    finally:
        structlog.configure(**before)
    assert stream.getvalue().count("something_failed") >= 3
    assert MARKER not in stream.getvalue() + str(recurring.error) + str(GatewayError(text))


# --- the client and the command line ------------------------------------------------------------------------------

TOKENS = [
    f"{MARKER}\nx",
    f"{MARKER}\r\nX-Other: 1",
    f"{MARKER} x",
    f"{MARKER}é",
    f"{MARKER}\0",
    f"{MARKER}\x7f",
    f"„{MARKER}“",
]


@pytest.mark.parametrize("token", TOKENS)
def test_a_token_that_cannot_be_sent_is_told_by_its_variable(
    run: Run,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    token: str,
) -> None:
    for client in (Client, AsyncClient):
        with pytest.raises(InvalidToken) as refused:
            client(token=token)
        assert MARKER not in said(refused.value)
    monkeypatch.setattr("app.cli.rest_client.os.environ", {"ATTACHMENT_GATEWAY_TOKEN": token})  # with any character
    result = run("ls", "--url", "http://127.0.0.1:9")
    assert result.code == 1
    assert "ATTACHMENT_GATEWAY_TOKEN is not a token" in result.err
    assert MARKER not in result.out + result.err


@pytest.mark.parametrize("end", ["\n", "\r\n", " ", "\t\n"])
def test_the_line_end_of_a_token_is_not_sent(end: str) -> None:
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers["Authorization"])
        return httpx.Response(200, json={"items": []})

    client = Client("http://127.0.0.1:9", f"{MARKER}{end}")
    client._http._transport = httpx.MockTransport(answer)
    client.get("attachments")
    assert sent == [f"Bearer {MARKER}"]


@pytest.mark.parametrize("authority", AUTHORITIES)
@pytest.mark.parametrize("scheme", ["http", "https", "gateway"])
def test_no_password_of_a_url_is_in_an_error_of_the_client(
    run: Run,  # noqa: F811
    authority: str,
    scheme: str,
) -> None:
    url = f"{scheme}://{authority.replace('host', '127.0.0.1:9')}"
    if "@" not in url:
        return
    with pytest.raises((ValueError, Unreachable)) as failed, Client(url) as client:
        client.get("attachments")
    assert MARKER not in str(failed.value)
    with pytest.raises((ValueError, Unreachable)) as failed:
        asyncio.run(attempt(url))
    assert MARKER not in str(failed.value)
    result = run("ls", "--url", url)
    assert result.code != 0
    assert MARKER not in result.out + result.err


async def attempt(url: str) -> None:
    async with AsyncClient(url) as client:
        await client.get("attachments")


@pytest.mark.parametrize(
    "proxy", [f"http://user:{MARKER}/x@host", f"gopher://user:{MARKER}@host", f"http://u:{MARKER}@h:{MARKER}"]
)
def test_no_password_of_a_proxy_is_in_an_error(run: Run, monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:  # noqa: F811
    monkeypatch.setenv("HTTP_PROXY", proxy)
    with pytest.raises(ValueError, match="HTTP_PROXY") as failed:
        Client("http://gateway.example")
    assert MARKER not in said(failed.value)
    result = run("ls", "--url", "http://gateway.example")
    assert result.code != 0
    assert MARKER not in result.out + result.err


# --- secrets in files ---------------------------------------------------------------------------------------------


def models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield a model and all that are in it."""
    yield model
    for field in model.model_fields.values():
        for kind in kinds(field.annotation):
            if isinstance(kind, type) and issubclass(kind, BaseModel) and kind is not BaseModel:
                yield from models(kind)


def kinds(annotation: Any) -> Iterator[Any]:
    yield annotation
    for each in getattr(annotation, "__args__", ()):
        yield from kinds(each)


def all_models() -> list[type[BaseModel]]:
    found = [*models(Settings)]
    for name in plugins.names("transport"):
        if name != "ibm_mq":  # needs its library
            transport = plugins.transport(name)
            found += [*models(transport.source_settings), *models(transport.destination_settings)]
    from adapters.ibm_mq.settings import DestinationSettings, SourceSettings  # noqa: PLC0415

    return [*found, *models(SourceSettings), *models(DestinationSettings)]


def test_every_secret_of_the_configuration_is_one_that_is_read_again() -> None:
    secrets = {
        f"{model.__name__}.{name}": kind
        for model in all_models()
        for name, field in model.model_fields.items()
        for kind in kinds(field.annotation)
        if isinstance(kind, type) and issubclass(kind, SecretStr)
    }
    assert len(secrets) > 5
    assert {name for name, kind in secrets.items() if not issubclass(kind, Secret)} == set()


CATALOG = "postgresql+psycopg://user@host/"


def test_values_in_files_are_those_of_now(tmp_path: Path) -> None:
    file, urls, tokens, keys = (tmp_path / name for name in ("secret", "urls", "tokens", "keys"))
    configuration = tmp_path / "gateway.toml"

    def write(word: str) -> list[str]:
        file.write_text(f"{word}\r\n")
        urls.write_text(f"{CATALOG}{word}\r\n")
        digest = sha256(word.encode()).hexdigest()
        tokens.write_text(f"{digest}\n{digest.upper()}\n")
        keys.write_text(f"whsec_{digest[:32]}\n")
        return [word] * 4 + [digest] * 2 + [f"whsec_{digest[:32]}"]

    def now() -> list[str]:
        source = settings.sources["a"].options
        return [
            source.username.current,  # type: ignore[attr-defined]
            source.password.get_secret_value(),  # type: ignore[attr-defined]
            settings.catalog.url.current.removeprefix(CATALOG) if settings.catalog.url else "",
            settings.pipeline.lineage_token.get_secret_value() if settings.pipeline.lineage_token else "",
            *settings.http.tokens.current,
            *(each.get_secret_value() for each in settings.webhooks["a"].secrets.current),
        ]

    first = write("first")
    configuration.write_text(
        f'[http]\ntokens_file = "{tokens}"\n[catalog]\nurl_file = "{urls}"\n[pipeline]\nlineage_token_file = "{file}"\n'
        f'[webhooks.a]\nurl = "https://h"\nsecrets_file = "{keys}"\n'
        f'[sources.a]\ntransport = "mqtt"\ntopic = "t"\nurl = "mqtt://h"\n'
        f'username_file = "{file}"\npassword_file = "{file}"\n'
    )
    settings = load(configuration)
    assert now() == first
    second = write("second")
    assert now() == second
    for broken in ("", "no digest, no key"):  # of what can be checked, the last valid value holds
        tokens.write_text(broken)
        keys.write_text(broken)
        assert now() == second
    for each in (file, urls, tokens, keys):
        each.unlink()
    assert now() == second
    third = write("third")
    assert now() == third


def test_types_that_are_read_again_are_plain_values_otherwise() -> None:
    class Model(BaseModel):
        secret: Secret
        changing: Changing
        words: Words[str]

    made = Model.model_validate({"secret": "a", "changing": "b", "words": ["c"]})
    assert (made.secret.get_secret_value(), made.changing.current, made.words.current) == ("a", "b", ["c"])
    assert made.model_dump(mode="json") == {"secret": "**********", "changing": "b", "words": ["c"]}

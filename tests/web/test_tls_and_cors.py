"""TLS with a certificate that is replaced while the gateway runs, and calls by pages of other hosts."""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from random import Random
from select import select
from time import sleep
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from structlog.testing import capture_logs

from app.model.errors import GatewayError
from app.settings import Http
from app.testing.waiting import until
from app.web.app import create_app
from app.web.server.certificate import Certificate
from tests.web.conftest import connected
from tests.web.raw import opened
from tests.web.stock import Stock, serving

PAGE = "https://console.example"


def write_pair(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate that is its own authority, for 127.0.0.1, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = folder / "tls.crt", folder / "tls.key"
    cert_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return cert_file, key_file


def is_served(address: str, certificate: Path) -> bool:
    context = ssl.create_default_context(cafile=str(certificate))
    try:
        return httpx.get(f"{address}/health/live", verify=context, timeout=60).status_code == 200
    except httpx.ConnectError:
        return False


def test_a_new_certificate_is_served_without_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.web.server.certificate.CERTIFICATE_SECONDS", 0)
    (tmp_path / "old").mkdir()
    old, _ = write_pair(tmp_path / "old", "old")
    cert_file, key_file = write_pair(tmp_path, "new")
    new = tmp_path / "new.crt"
    new.write_bytes(cert_file.read_bytes())
    (fresh_cert, fresh_key) = (cert_file.read_bytes(), key_file.read_bytes())
    cert_file.write_bytes(old.read_bytes())
    key_file.write_bytes((tmp_path / "old/tls.key").read_bytes())
    stock = Stock(tmp_path / "data", http={"cert_file": cert_file, "key_file": key_file})
    with serving(create_app(stock.gateway)) as plain:
        address = plain.replace("http://", "https://")
        assert is_served(address, old)
        assert not is_served(address, new)
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{plain}/health/live", timeout=60)
        with capture_logs() as logged:
            cert_file.write_bytes(fresh_cert)  # its key comes later: until then the old pair is served
            until(lambda: any(each["event"] == "certificate_reload_failed" for each in logged))
            assert is_served(address, old)
            key_file.write_bytes(fresh_key)
            until(lambda: is_served(address, new))
        assert "certificate_reloaded" in [each["event"] for each in logged]
    stock.close()


def test_a_large_file_is_the_same_over_tls_however_often_it_is_downloaded(tmp_path: Path) -> None:
    cert_file, key_file = write_pair(tmp_path, "a")
    stock = Stock(tmp_path / "data", http={"cert_file": cert_file, "key_file": key_file})
    data = Random(1).randbytes(3 << 20)
    record = stock.stored(data)
    with serving(create_app(stock.gateway)) as plain:
        context = ssl.create_default_context(cafile=str(cert_file))
        with httpx.Client(base_url=plain.replace("http://", "https://"), verify=context, timeout=60) as client:
            for _ in range(3):
                assert client.get(f"/v1/attachments/{record.id}/content").content == data
                sleep(0.05)  # what was changed a moment ago is compared again
    stock.close()


def is_open(client: socket.socket) -> bool:
    readable, _, _ = select([client], [], [], 0)
    with suppress(ConnectionResetError):
        return not readable or bool(client.recv(1, socket.MSG_PEEK))
    return False


def answered(raw: socket.socket, context: ssl.SSLContext, request: bytes) -> bytes:
    """The beginning of the response to a request over TLS, of which the server gets one byte at a time."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")

    def exchanged(step: Callable[[], Any]) -> Any:
        while True:
            with suppress(ssl.SSLWantReadError):
                return step()
            for byte in outgoing.read():
                raw.send(bytes([byte]))
            incoming.write(raw.recv(1 << 16))

    exchanged(client.do_handshake)
    client.write(request)
    return bytes(exchanged(lambda: client.read(100)))


@contextmanager
def served_over_tls(folder: Path, **http: Any) -> Iterator[tuple[str, Path]]:
    cert_file, key_file = write_pair(folder, "a")
    stock = Stock(folder / "data", http={"cert_file": cert_file, "key_file": key_file, **http})
    with serving(create_app(stock.gateway)) as plain:
        yield plain, cert_file
    stock.close()


def test_a_connection_has_its_place_before_its_handshake(tmp_path: Path) -> None:
    with served_over_tls(tmp_path, connections_a_client=3) as (plain, cert_file), ExitStack() as stack:
        silent = [stack.enter_context(opened(plain)) for _ in range(10)]
        until(lambda: [is_open(each) for each in silent] == [False] * 7 + [True] * 3)
        with opened(plain) as raw:
            context = ssl.create_default_context(cafile=str(cert_file))
            request = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
            assert answered(raw, context, request).startswith(b"HTTP/1.1 200")
        assert [is_open(each) for each in silent[-3:]] == [False, True, True], "the one idle longest gives way"
        with opened(plain) as raw:
            raw.sendall(b"GET / HTTP/1.1\r\n\r\n" * 5)
            until(lambda: not is_open(raw))
        assert is_served(plain.replace("http://", "https://"), cert_file)


def test_a_handshake_has_the_time_of_a_head(tmp_path: Path) -> None:
    with served_over_tls(tmp_path, header_timeout=timedelta(seconds=1)) as (plain, _), opened(plain) as silent:
        silent.sendall(b"\x16\x03\x01")  # a ClientHello begins like this
        until(lambda: not is_open(silent))


def test_a_certificate_that_cannot_be_used_is_an_error_at_the_start(tmp_path: Path) -> None:
    cert_file, key_file = write_pair(tmp_path, "a")
    key_file.write_bytes(b"no key")
    with pytest.raises(GatewayError, match=r"tls\.crt with the key .*tls\.key cannot be used"):
        Certificate(Http(cert_file=cert_file, key_file=key_file))
    with pytest.raises(ValueError, match=r"there is no file .*none"):
        Http(cert_file=tmp_path / "none")
    with pytest.raises(ValueError, match="key_file needs cert_file"):
        Http(key_file=key_file)


@contextmanager
def called_from(folder: Path, origins: list[str]) -> Iterator[httpx.Client]:
    stock = Stock(folder, http={"cors_origins": origins, "anonymous": "nobody"})
    with connected(stock) as client:
        yield client
    stock.close()


def preflight(client: httpx.Client, origin: str, method: str = "GET") -> httpx.Response:
    asked = {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": "authorization,range"}
    return client.options("/v1/attachments", headers={"Origin": origin, **asked})


def test_pages_of_configured_origins_may_call(tmp_path: Path) -> None:
    with called_from(tmp_path, [PAGE]) as client:
        asked = preflight(client, PAGE, "DELETE")
        assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (200, PAGE)
        assert "access-control-allow-credentials" not in asked.headers
        refused = client.get("/v1/attachments", headers={"Origin": PAGE})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, PAGE)
        assert "ETag" in refused.headers["access-control-expose-headers"]
        for origin, method in (("https://evil.example", "GET"), (PAGE, "TRACE")):
            preflighted = preflight(client, origin, method)
            assert "access-control-allow-origin" not in preflighted.headers
            problem = preflighted.json()
            assert preflighted.headers["content-type"] == "application/problem+json"
            assert (problem["type"], problem["instance"]) == ("/problems/cross-origin", "/v1/attachments")
            assert (origin in problem["detail"], problem["setting"]) == (True, "http.cors_origins")
        elsewhere = client.get("/v1/attachments", headers={"Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in elsewhere.headers


def test_without_the_setting_no_page_may_call(tmp_path: Path) -> None:
    with called_from(tmp_path, []) as client:
        answer: Any = preflight(client, PAGE)
        assert answer.status_code == 405
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("wrong", ["console.example", "https://console.example/", "file:///x", "null"])
def test_an_origin_has_scheme_and_host_alone(wrong: str) -> None:
    with pytest.raises(ValueError, match="String should match pattern"):
        Http(cors_origins=[wrong])

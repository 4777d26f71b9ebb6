"""The client of commands: proxies are for gateways on other machines only."""

from collections.abc import Iterator

import pytest
from attachment_gateway_client.calls import is_loopback

from app.cli.rest_client import connect
from app.cli.terminal import Failure
from tests.support.http_server import Handler, serving

CLOSED = "http://127.0.0.1:9"


class _Answering(Handler):
    """A gateway, or a proxy: it answers each request with the URL that was asked for."""

    def do_GET(self) -> None:
        self.answer(200, f'"{self.path}"'.encode())


@pytest.fixture
def server() -> Iterator[int]:
    with serving(_Answering) as port:
        yield port


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
@pytest.mark.parametrize("proxy", [CLOSED, "socks5://127.0.0.1:9", "nonsense://"])
def test_no_proxy_stands_before_this_machine(
    server: int, name: str, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, proxy)
    for host in ("127.0.0.1", "localhost"):
        with connect(f"http://{host}:{server}") as client:
            assert client.get("attachments") == "/v1/attachments"


def test_a_proxy_stands_before_other_machines(server: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{server}")
    with connect("http://gateway.example:8080") as client:
        assert client.get("attachments") == "http://gateway.example:8080/v1/attachments"


@pytest.mark.parametrize(
    ("proxy", "said"),
    [
        ("socks5://user:swordfish@127.0.0.1:9", "cannot be reached by a SOCKS proxy without the library 'socksio'"),
        ("nonsense://user:swordfish@127.0.0.1:9", "a proxy of the environment has no valid URL"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_said_without_its_password(
    proxy: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(Failure) as failed:
        connect("http://gateway.example:8080")
    assert said in str(failed.value)
    assert "ALL_PROXY" in failed.value.hint
    assert "swordfish" not in f"{failed.value} {failed.value.hint}"


def test_the_hosts_of_this_machine() -> None:
    ours = ["localhost", "a.localhost", "127.0.0.1", "127.8.9.10", "::1", "0.0.0.0", "::"]
    assert [host for host in ours if not is_loopback(host)] == []
    others = ["gateway.example", "localhost.example", "10.0.0.1", "169.254.1.1", "fe80::1", ""]
    assert [host for host in others if is_loopback(host)] == []

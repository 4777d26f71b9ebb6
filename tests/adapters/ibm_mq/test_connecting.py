"""How the gateway logs in and what it asks of the queue manager's certificate, as far as each library can say it."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from adapters.ibm_mq.settings import SourceSettings
from app.framing.registry import traits
from app.plugins import PluginError
from app.ports import SendFailed
from app.secret import Secret, ValueFile
from app.testing.collecting_intake import Collector, receiving
from app.testing.transport_contract import message
from tests.adapters.ibm_mq.conftest import Place
from tests.support import mq
from tests.support.queue_manager import QueueManager

CIPHER = "ANY_TLS12_OR_HIGHER"
NAME = "CN=qm1,O=Example"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A client's key repository, without its suffix; nothing is really encrypted."""
    (tmp_path / "keys.kdb").touch()
    return tmp_path / "keys"


def test_the_certificate_must_be_the_one_asked_for(tmp_path: Path, keys: Path, library: ModuleType) -> None:
    with QueueManager(tmp_path / "manager", cipher=CIPHER, certificate_name=NAME) as manager:
        place = Place(library, manager, "DEV.QUEUE.1")
        secured: dict[str, Any] = {"cipher_spec": CIPHER, "key_repository": str(keys)}
        place.sender(**secured, ssl_peer_name=NAME).send([message(1)])
        with pytest.raises(SendFailed, match="2398 MQRC_SSL_PEER_NAME_MISMATCH"):
            place.sender(**secured, ssl_peer_name="CN=other").send([message(2)])


def test_a_key_repository_that_is_not_there_is_said(tmp_path: Path, library: ModuleType) -> None:
    with QueueManager(tmp_path / "manager", cipher=CIPHER) as manager:
        sender = Place(library, manager, "DEV.QUEUE.1").sender(cipher_spec=CIPHER, key_repository="/no/such/keys")
        with pytest.raises(SendFailed, match="2381 MQRC_KEY_REPOSITORY_ERROR"):
            sender.send([message(1)])


def test_a_token_is_read_at_each_connection(tmp_path: Path, library: ModuleType) -> None:
    if not hasattr(library, "CNO"):
        pytest.skip("pymqi knows no tokens")
    token = tmp_path / "token"
    with QueueManager(tmp_path / "manager", users={"a": "b"}, tokens={"first": "app", "second": "app"}) as manager:
        place = Place(library, manager, "DEV.QUEUE.1")
        token.write_text("first\n")
        sender = place.sender(token=Secret.of(ValueFile(token, "token_file")))
        for text in ("first\n", "second\n"):
            token.write_text(text)
            sender.send([message(1)])
            sender.close()
        token.unlink()  # the last one holds
        sender.send([message(1)])
        sender.close()
        token.write_text("third")
        with pytest.raises(SendFailed, match="2035 MQRC_NOT_AUTHORIZED"):
            sender.send([message(1)])
        assert sender.status()["credential"] == "token_file"
        assert sender.status()["refused_since"]


def test_the_application_has_the_name_it_is_given(place: Place) -> None:
    if not hasattr(place.library, "CNO"):
        pytest.skip("pymqi has no application names")
    place.sender(application_name="gateway of sales").send([message(1)])
    ((descriptor, _),) = place.taken()
    assert descriptor.PutApplName.rstrip() == b"gateway of sales"


@pytest.mark.parametrize(("said", "shown"), [(None, b"attachment-gateway"), ("gateway of tests", b"gateway of tests")])
def test_without_a_name_the_application_is_the_gateway(
    place: Place, monkeypatch: pytest.MonkeyPatch, said: str | None, shown: bytes
) -> None:
    """Unless MQAPPLNAME says something else. With pymqi the gateway sets it, for the whole process."""
    monkeypatch.setenv("MQAPPLNAME", said or "")
    if said is None:
        monkeypatch.delenv("MQAPPLNAME")
    place.sender().send([message(1)])
    ((descriptor, _),) = place.taken()
    assert descriptor.PutApplName.rstrip() == shown


@pytest.mark.parametrize(
    "more",
    [
        {"application_name": "gateway"},
        {"token": "token"},
        {"channel": "C", "connection": "h", "cipher_spec": CIPHER, "key_repository_password": "s3cret"},
    ],
)
def test_what_pymqi_does_not_know_is_refused_with_a_word(library: ModuleType, more: dict[str, Any]) -> None:
    from adapters.ibm_mq.plugin import MqPlugin  # noqa: PLC0415  (it needs the library that the fixture loads)

    plugin, settings = MqPlugin(library), SourceSettings.model_validate({"queue": "Q", **more})
    if hasattr(library, "CNO"):
        plugin.receiver("here", traits("sas_queue"), settings)
    else:
        with pytest.raises(PluginError, match=r"here: pymqi does not support .*; install ibmmq"):
            plugin.receiver("here", traits("sas_queue"), settings)


def test_who_put_a_message_is_kept(place: Place) -> None:
    with mq.connected(place.library, place.manager) as connection:
        queue = place.library.Queue(connection, place.queue, place.library.CMQC.MQOO_OUTPUT)
        queue.put(b"data", place.library.MD(ReplyToQ=b"ANSWERS", Format=b"MQSTR"))
        queue.close()
    collector = Collector()
    with receiving(place.receiver(), collector):
        collector.wait_for(1)
    properties = collector.messages[0].properties
    assert (properties["mqmd.reply_to_q"], properties["mqmd.reply_to_q_mgr"]) == ("ANSWERS", place.manager.name)
    assert properties["mqmd.user_identifier"] == "app"
    assert properties["mqmd.put_appl_name"]
    assert len(properties["mqmd.accounting_token"]) == 64

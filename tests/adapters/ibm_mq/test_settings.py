"""What a source's and a destination's settings may say."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from adapters.ibm_mq.settings import DestinationSettings, SourceSettings
from app.settings.section import with_files

REMOTE = {"channel": "APP.SVRCONN", "connection": "mq.example(1414)"}


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"queue": "MY QUEUE"}, "1 to 48 letters"),
        ({"queue": "Q" * 49}, "1 to 48 letters"),
        ({"queue": "Q", "queue_manager": "Q M"}, "1 to 48 letters"),
        ({"queue": "Q", "channel": "C" * 21, "connection": "h"}, "1 to 20 letters"),
        ({"queue": "Q", "channel": "C"}, "come together"),
        ({"queue": "Q", "connection": "h(1414)"}, "come together"),
        ({"queue": "Q", "channel": "C", "connection": "h:1414()"}, "write host(1414)"),
        ({"queue": "Q", "channel": "C", "connection": "a(1),,b(2)"}, "write host(1414)"),
        ({"queue": "Q", "channel": "C", "connection": ",".join(["host.example(1414)"] * 20)}, "at most 264"),
        ({"queue": "Q", "user": "u"}, "come together"),
        ({"queue": "Q", "password": "p"}, "come together"),
        ({"queue": "Q", "cipher_spec": "ANY_TLS12_OR_HIGHER"}, "belongs to a channel"),
        ({"queue": "Q", **REMOTE, "key_repository": "/keys"}, "belongs to a cipher_spec"),
        ({"queue": "Q", "wait": 6}, "less than or equal to 5"),
        ({"queue": "Q", "topic": "t"}, "Extra inputs"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint.replace("(", r"\(").replace(")", r"\)")):
        SourceSettings.model_validate(given)


def test_an_encoding_that_says_no_byte_order_is_no_queue_managers() -> None:
    with pytest.raises(ValidationError, match="no integer encoding"):
        DestinationSettings.model_validate({"queue": "Q", "queue_manager_encoding": 256})


def test_a_connection_list_may_be_written_with_blanks() -> None:
    settings = SourceSettings.model_validate({"queue": "Q", "channel": "C", "connection": "a(1414), 10.0.0.1, b(1)"})
    assert settings.connection == "a(1414),10.0.0.1,b(1)"


def test_a_group_of_queue_managers_and_the_default_one_may_be_named() -> None:
    for name in ("*GROUP", "*", ""):
        assert SourceSettings.model_validate({"queue": "Q", "queue_manager": name}).queue_manager == name


def test_a_password_is_never_shown() -> None:
    settings = SourceSettings.model_validate({"queue": "Q", "user": "u", "password": "s3cret"})
    assert "s3cret" not in repr(settings)
    with pytest.raises(ValidationError) as refusal:
        SourceSettings.model_validate({"queue": "", "user": "u", "password": "s3cret"})
    assert "s3cret" not in str(refusal.value)


def test_several_queue_managers_take_the_rest_from_their_source() -> None:
    settings = SourceSettings.model_validate(
        {
            "queue": "Q",
            "channel": "C",
            "connection": "one",
            "user": "u",
            "password": "p",
            "wait": 1,
            "queue_managers": [
                {"queue_manager": "QM1"},
                {"queue_manager": "QM2", "connection": "two(1415)", "password": "other", "queue": "Q2"},
            ],
        }
    )
    first, second = settings.places()
    assert (first.queue_manager, first.connection, first.queue, first.wait) == ("QM1", "one", "Q", 1)
    assert (second.queue_manager, second.connection, second.queue) == ("QM2", "two(1415)", "Q2")
    assert second.password is not None
    assert second.password.get_secret_value() == "other"


def test_each_queue_managers_password_is_read_again(tmp_path: Path) -> None:
    of_all, own = tmp_path / "of-all", tmp_path / "own"
    of_all.write_text("a")
    own.write_text("b")
    places = [{"queue_manager": "QM1"}, {"queue_manager": "QM2", "password_file": own}]
    given = {"queue": "Q", "user_file": of_all, "password_file": of_all, "queue_managers": places}
    settings = SourceSettings.model_validate(with_files(given, SourceSettings))
    of_all.write_text("A")
    own.write_text("B")
    read = [
        (place.user and place.user.current, place.password and place.password.get_secret_value())
        for place in settings.places()
    ]
    assert read == [("A", "A"), ("A", "B")]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"queue_managers": [{"queue_manager": "QM1"}, {"queue_manager": "QM1"}]}, "the same queue manager twice"),
        ({"queue_managers": [{"queue_manager": "no name"}]}, "a name has 1 to 48"),
        ({"queue_managers": [{"connections": 2}]}, "connections"),
        ({"exclusive": True, "connections": 2}, "an exclusive source has one connection"),
        ({"token": "t", "user": "u", "password": "p"}, "not both"),
        ({"ssl_peer_name": "CN=x"}, "ssl_peer_name belongs to a cipher_spec"),
    ],
)
def test_what_does_not_go_together_is_said(more: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        SourceSettings.model_validate({"queue": "Q", **more})

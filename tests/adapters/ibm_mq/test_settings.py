"""What a source's and a destination's settings may say."""

from typing import Any

import pytest
from pydantic import ValidationError

from adapters.ibm_mq.settings import DestinationSettings, SourceSettings

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
        ({"queue": "Q", **REMOTE, "key_repository": "/keys"}, "belong to a cipher_spec"),
        ({"queue": "Q", "wait": 6}, "less than or equal to 5"),
        ({"queue": "Q", "topic": "t"}, "Extra inputs"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint.replace("(", r"\(").replace(")", r"\)")):
        SourceSettings.model_validate(given)


def test_an_encoding_that_says_no_byte_order_is_no_queue_managers() -> None:
    with pytest.raises(ValidationError, match="how integers are written"):
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

"""The physical messages of a delivery: the application message, and descriptions of files."""

import base64

import httpx
import pytest

from tests.web.messages.sending import delivery, described, sent, simple
from tests.web.stock import Stock


def test_the_application_message_may_be_bytes(stock: Stock, http: httpx.Client) -> None:
    body = {"base64": base64.b64encode(b"\0\xff").decode()}
    record = delivery(stock, http.post("/v1/messages", files=described(simple(application_message=body), a=b"")))
    assert (record.application_body, record.application_format) == (b"\0\xff", "")


@pytest.mark.parametrize(
    ("destination", "ccsid", "encoding", "codec"),
    [("partner", 1208, 273, "utf-8"), ("mainframe", 37, 785, "cp037"), ("utf-16", 1200, 546, "utf-16-le")],
)
def test_the_application_message_is_in_the_destinations_character_set_and_says_so(
    stock: Stock, http: httpx.Client, destination: str, ccsid: int, encoding: int, codec: str
) -> None:
    text = "Über HELLO 1234.\n"
    wanted = simple(destination=destination, application_message={"text": text})
    record = delivery(stock, http.post("/v1/messages", files=described(wanted, a=b"x")))
    (message,) = (each for each in sent(stock, record) if each.correl_id == record.message_correl_id)
    assert (message.body, message.format) == (text.encode(codec), "MQSTR")
    assert (message.ccsid, message.encoding) == (ccsid, encoding)
    assert record.application_ccsid == ccsid


@pytest.mark.parametrize(("format_", "body"), [("", b"\xff\0"), ("MYFMT", b"\x81"), ("MQSTR", "ä".encode("cp037"))])
def test_bytes_are_sent_as_they_are(stock: Stock, http: httpx.Client, format_: str, body: bytes) -> None:
    given = {"base64": base64.b64encode(body).decode(), "format": format_}
    wanted = simple(destination="mainframe", application_message=given)
    record = delivery(stock, http.post("/v1/messages", files=described(wanted, a=b"x")))
    (message,) = (each for each in sent(stock, record) if each.correl_id == record.message_correl_id)
    assert (message.body, message.format, message.ccsid) == (body, format_, 37)


@pytest.mark.parametrize(
    ("content", "lrecl"), [(b"", 32_767), (b"short\n" * 9000, 32_767), (b"x\n" + b"y" * 100_000 + b"\nz", 100_000)]
)
def test_the_record_length_of_a_text_file_is_that_of_its_longest_record_at_least(
    stock: Stock, http: httpx.Client, content: bytes, lrecl: int
) -> None:
    entry = {"part": "a", "kind": "text-file", "name": "a.txt"}
    record = delivery(stock, http.post("/v1/messages", files=described(simple(attachments=[entry]), a=content)))
    described_in = sent(stock, record)[2].body
    assert described_in == lrecl.to_bytes(4, "big") + len(content).to_bytes(4, "big")

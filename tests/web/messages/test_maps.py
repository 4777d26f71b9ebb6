"""Application messages that are maps: typed values, as SAS sends and takes them over TIB/Rendezvous."""

import base64
from typing import Any

import httpx
import pytest

from app.settings.transports import Source
from tests.codecs.sas.rendezvous_bytes import f64, i16, i32, message, string
from tests.web.messages.sending import delivery, described, errors, sent, simple
from tests.web.stock import Stock

VALUES = [
    {"type": "short", "value": 100},
    {"type": "long", "value": 9999},
    {"type": "double", "value": 9999.1234},
    {"type": "char", "value": "Größe"},
]
TEXT = "Größe".encode()


def body(name: str = "MSG") -> bytes:
    """The message of VALUES, made of the specification's table."""
    pairs = [(1, i16(100)), (2, i32(9999)), (3, f64(9999.1234)), (4, string(TEXT))]
    return message(name, [i32(4), *(field for kind, value in pairs for field in (i32(kind), value))])


def seen(stock: Stock, http: httpx.Client, content: bytes, ccsid: int = 1208) -> Any:
    record = stock.message([], application_body=content, application_ccsid=ccsid)
    return http.get(f"/v1/messages/{record.id}").json()["application_message"]


@pytest.mark.parametrize("name", ["MSG", "DATA"])
def test_the_values_of_a_map_are_shown(stock: Stock, http: httpx.Client, name: str) -> None:
    found = seen(stock, http, body(name))
    assert (found["values"], found["text"]) == (VALUES, None)
    assert base64.b64decode(found["base64"]) == body(name)


def test_a_map_of_one_text_is_that_text(stock: Stock, http: httpx.Client) -> None:
    found = seen(stock, http, message("MSG", [i32(1), i32(4), string(TEXT)]))
    assert (found["values"], found["text"]) == ([VALUES[3]], "Größe")


def test_what_json_or_the_character_set_lacks_is_null(stock: Stock, http: httpx.Client) -> None:
    nan = f64(float("nan"))
    found = seen(stock, http, message("MSG", [i32(2), i32(3), nan, i32(4), string(b"\xff")]))
    assert found["values"] == [{"type": "double", "value": None}, {"type": "char", "value": None}]


@pytest.mark.parametrize(
    ("texts", "configured", "charset", "wanted"),
    [
        ([TEXT], None, "utf-8", ["Größe"]),
        ([TEXT, b"Gr\xf6\xdfe"], None, "cp1252", ["GrÃ¶ÃŸe", "Größe"]),
        ([b"\x81"], None, "latin-1", ["\x81"]),
        ([b"\x81"], 1208, "utf-8", [None]),
        (["Größe".encode("cp037")], 37, "cp037", ["Größe"]),
    ],
)
def test_texts_that_declare_no_character_set_are_shown_in_that_of_the_source_or_in_one_that_fits(
    stock: Stock, http: httpx.Client, texts: list[bytes], configured: int | None, charset: str, wanted: list[str | None]
) -> None:
    stock.settings.sources["orders"] = Source.model_construct(ccsid=configured)
    pairs = [field for each in texts for field in (i32(4), string(each))]
    found = seen(stock, http, message("MSG", [i32(len(texts)), *pairs]), ccsid=0)
    assert [each["value"] for each in found["values"]] == wanted
    assert (found["charset"], found["text"]) == (charset, wanted[0] if len(wanted) == 1 else None)
    # Bytes that nothing calls text are text only where the source says so.
    assert seen(stock, http, b"\xc3", ccsid=0)["text"] == ("C" if configured == 37 else None)


@pytest.mark.parametrize("content", [b"", b"text", body()[:-3], message("MSG", [i32(9)]), message("LST", [i32(1)])])
def test_other_bytes_have_no_values(stock: Stock, http: httpx.Client, content: bytes) -> None:
    assert seen(stock, http, content)["values"] is None


def test_a_map_is_sent_as_the_message_that_the_specification_has(stock: Stock, http: httpx.Client) -> None:
    wanted = simple(destination="rendezvous", application_message={"values": VALUES})
    record = delivery(stock, http.post("/v1/messages", files=described(wanted, a=b"x")))
    assert sent(stock, record)[1].body == body()


def test_text_for_a_rendezvous_destination_is_a_map_of_it(stock: Stock, http: httpx.Client) -> None:
    wanted = simple(destination="rendezvous", application_message={"text": "Größe"})
    record = delivery(stock, http.post("/v1/messages", files=described(wanted, a=b"x")))
    assert sent(stock, record)[1].body == message("MSG", [i32(1), i32(4), string(TEXT)])


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"type": "short", "value": 40_000}, "integer of 16 bits"),
        ({"type": "long", "value": 1 << 31}, "integer of 32 bits"),
        ({"type": "long", "value": 1.5}, "integer of 32 bits"),
        ({"type": "double", "value": "1"}, "a double has a number"),
        ({"type": "double", "value": 10**400}, "finite number"),
        ({"type": "char", "value": 1}, "a char has a text"),
        ({"type": "float", "value": 1}, "'short', 'long', 'double' or 'char'"),
    ],
)
def test_values_that_their_type_lacks_are_refused(http: httpx.Client, value: dict[str, Any], why: str) -> None:
    wanted = simple(destination="rendezvous", application_message={"values": [value]})
    response = http.post("/v1/messages", files=described(wanted, a=b"x"))
    assert response.status_code == 422
    assert why in response.text


@pytest.mark.parametrize(
    ("destination", "given", "why"),
    [
        ("partner", {"values": VALUES}, "the framing sas_queue carries no map"),
        ("rendezvous", {"values": [{"type": "char", "value": "a\0b"}]}, "a NUL within a string"),
        ("rendezvous", {"base64": base64.b64encode(b"a\0b").decode()}, "a NUL within a string"),
        ("rendezvous", {"base64": base64.b64encode(message("MSG", [i32(9)])).decode()}, "9 times 2 fields"),
    ],
)
def test_what_a_destination_does_not_carry_is_refused(
    http: httpx.Client, destination: str, given: dict[str, Any], why: str
) -> None:
    wanted = simple(destination=destination, application_message=given)
    response = http.post("/v1/messages", files=described(wanted, a=b"x"))
    assert (response.status_code, errors(response)) == (422, ["#/application_message"])
    assert why in response.json()["detail"]


@pytest.mark.parametrize("value", [True, None, [1], {"int": 1}])
def test_a_value_that_no_type_has_is_one_error_at_its_place(http: httpx.Client, value: object) -> None:
    wanted = simple(destination="rendezvous", application_message={"values": [{"type": "long", "value": value}]})
    response = http.post("/v1/messages", files=described(wanted, a=b"x"))
    assert (response.status_code, errors(response)) == (422, ["#/application_message/values/0/value"])
    assert response.json()["errors"][0]["detail"] == "give a number or a text"


def test_the_place_of_a_wrong_name_of_a_member_is_the_member(http: httpx.Client) -> None:
    wanted = simple(attachments=[{"part": "a", "kind": "data-set", "data_set": {"variables": {"a\n": {}}}}])
    response = http.post("/v1/messages", files=described(wanted, a=b"x"))
    assert (response.status_code, errors(response)) == (422, ["#/attachments/0/data_set/variables/a\n"])

"""Identifiers in requests: the first digits do, while they are unique."""

import httpx
import pytest

from app.model.records import DeliveryRecord
from app.web.dependencies.known_resources import CANDIDATES, SHORTEST
from tests.web.stock import Stock


def test_the_first_digits_do_in_every_route(http: httpx.Client, stock: Stock) -> None:
    message = stock.message([])
    attachment = stock.stored(b"some bytes", id="ab12" + "7" * 28, message_id=message.id)
    stock.catalog.add_delivery(DeliveryRecord("cd34" + "0" * 28, "partner", bytes(24), bytes(24), (), 1, 1), [])
    assert http.get("/v1/attachments/ab12").json()["id"] == attachment.id
    assert http.get("/v1/attachments/ab127/content").content == b"some bytes"
    assert http.head("/v1/attachments/ab127/content").headers["Content-Length"] == "10"
    assert http.get("/v1/attachments/ab127/schema").json()["type"] == "/problems/not-a-data-set"
    assert http.get(f"/v1/messages/{message.id[:8]}").json()["id"] == message.id
    assert http.get("/v1/deliveries/cd34").json()["id"] == "cd34" + "0" * 28
    listed = http.get("/v1/attachments", params={"message": message.id[:8]}).json()["items"]
    assert [item["id"] for item in listed] == [attachment.id]
    assert http.get("/v1/attachments", params={"message": "0000"}).json()["items"] == []
    assert http.delete("/v1/attachments/ab127").status_code == 204
    assert http.get("/v1/attachments/ab12").json()["state"] == "deleted"


@pytest.mark.parametrize("given", ["ab1", "AB12", "zzzz", "ab13", "ab12%25", "ab12" + "7" * 29])
def test_what_begins_no_identifier_is_not_found(http: httpx.Client, stock: Stock, given: str) -> None:
    assert len("ab1") < SHORTEST
    stock.stored(b"", id="ab12" + "7" * 28)
    assert http.get(f"/v1/attachments/{given}").json()["type"] == "/problems/not-found"


def test_several_are_a_conflict_that_lists_them(http: httpx.Client, stock: Stock) -> None:
    ids = [f"ab12{number:028x}" for number in range(CANDIDATES + 1)]
    for identifier in ids[:2]:
        stock.stored(b"", id=identifier)
    for call in (http.get, http.delete):
        problem = call("/v1/attachments/ab12").json()
        assert (problem["type"], problem["status"]) == ("/problems/ambiguous", 409)
        assert problem["candidates"] == ids[:2]
        assert ids[1] in problem["detail"]
    assert http.get(f"/v1/attachments/{ids[1][:-1]}1").status_code == 200
    for identifier in ids[2:]:
        stock.stored(b"", id=identifier)
    problem = http.get("/v1/attachments/ab12").json()
    assert problem["candidates"] == ids[:CANDIDATES]
    assert problem["detail"].endswith(" and more")


def test_every_operation_that_takes_first_digits_says_so(http: httpx.Client) -> None:
    paths = http.get("/openapi.json").json()["paths"]
    taking = [
        (operation, parameter)
        for operations in paths.values()
        for operation in operations.values()
        for parameter in operation.get("parameters", ())
        if parameter["name"] in ("attachment_id", "message_id", "delivery_id")
    ]
    assert len(taking) > 10
    for operation, parameter in taking:
        assert "first digits" in parameter.get("description", ""), operation["operationId"]
        assert "ambiguous" in str(operation["responses"]["409"]), operation["operationId"]


def test_an_entry_of_the_quarantine_is_found_without_its_leading_zeros(http: httpx.Client, stock: Stock) -> None:
    entry = stock.quarantined(b"spoilt", id="0000000100002000")
    assert http.get("/v1/quarantine/100002000").json()["id"] == entry.id
    assert http.get("/v1/quarantine/100002000/body").content == b"spoilt"
    assert http.delete("/v1/quarantine/100002000").status_code == 204
    assert http.get(f"/v1/quarantine/{entry.id}").json()["state"] == "dismissed"
    assert http.get("/v1/quarantine/1000020").status_code == 404

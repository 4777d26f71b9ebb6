"""Cancelling of deliveries and sending them again, by REST."""

from dataclasses import replace

import httpx

from app.model.attachment import DeliveryState
from tests.web.stock import Stock


def test_cancel_and_retry(stock: Stock, http: httpx.Client) -> None:
    identifier = http.put("/v1/files/partner/a.txt", content=b"a").json()["id"]
    path = f"/v1/deliveries/{identifier}"
    refused = http.post(f"{path}/retry")
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/wrong-state")
    assert refused.json()["state"] == "queued"
    cancelled = http.post(f"/v1/deliveries/{identifier[:8]}/cancel")
    assert (cancelled.status_code, cancelled.json()["state"]) == (202, "cancelled")
    assert http.post(f"{path}/cancel").status_code == 409
    assert [each["id"] for each in http.get("/v1/deliveries?state=cancelled").json()["items"]] == [identifier]
    again = http.post(f"{path}/retry")
    assert (again.status_code, again.json()["state"], again.json()["reason"]) == (202, "queued", None)
    for action in ("cancel", "retry"):
        assert http.post(f"/v1/deliveries/none/{action}").status_code == 404


def test_what_has_no_content_or_destination_is_not_sent_again(stock: Stock, http: httpx.Client) -> None:
    identifier = http.put("/v1/files/partner/a.txt", content=b"a").json()["id"]
    record = stock.catalog.delivery(identifier)
    assert record is not None
    bare = tuple(replace(attachment, object_name="") for attachment in record.attachments)
    stock.catalog.update_delivery(replace(record, state=DeliveryState.FAILED, attachments=bare))
    assert http.post(f"/v1/deliveries/{identifier}/retry").json()["detail"] == "its content is gone"
    stock.catalog.update_delivery(replace(record, state=DeliveryState.FAILED, destination="elsewhere"))
    assert http.post(f"/v1/deliveries/{identifier}/retry").json()["type"] == "/problems/unknown-destination"
    stock.catalog.update_delivery(replace(record, destination="elsewhere", state=DeliveryState.SENDING))
    assert http.post(f"/v1/deliveries/{identifier}/cancel").json()["state"] == "cancelled"

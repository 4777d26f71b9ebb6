"""Value labels in downloads, and profiles of data sets."""

import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat
import pytest

from app.dataset import value_labels
from app.model.attachment import AttachmentKind, AttachmentState
from app.model.records import AttachmentRecord
from tests.support import dataset_json
from tests.support.readstat import write_sas7bcat
from tests.support.tables import field
from tests.web.stock import Stock

PARQUET = "application/vnd.apache.parquet"
CATALOG = {"AGEF": {"1": "young", ".A": "refused", "0.5": "a baby"}, "$SEX": {"M": "Male", "F": "Female"}}


def pupils() -> pa.Table:
    schema = pa.schema(
        [
            field("Name", pa.string()),
            field("Sex", pa.string(), format="$SEX1.", length="1"),
            field("Age", pa.float64(), format="AGEF8.", label="Age group"),
            pa.field("Age__missing", pa.string(), metadata={"sas.missing_of": "Age"}),
        ],
        {"sas.library": "WORK", "sas.member": "PUPILS"},
    )
    columns = [["Ann", "Bob", "Cy", "Di"], ["F", "M", "", "x"], [1.0, None, 0.5, None], [None, ".A", None, ".B"]]
    return pa.table([pa.array(values, each.type) for values, each in zip(columns, schema, strict=True)], schema=schema)


def stored(stock: Stock, table: pa.Table, name: str, message_id: str | None = None) -> AttachmentRecord:
    sink = BytesIO()
    pq.write_table(table, sink)
    return stock.stored(
        sink.getvalue(),
        PARQUET,
        kind=AttachmentKind.DATA_SET,
        qualifier_1="WORK",
        qualifier_2=name,
        message_id=message_id,
    )


DATASET_JSON: dict[str, Callable[[bytes], dict[str, Any]]] = {
    "dataset-json": json.loads,
    "dataset-ndjson": dataset_json.read_ndjson,
    "dsjc": dataset_json.read_dsjc,
}


@pytest.fixture(scope="module")
def sent(shared_stock: Stock) -> AttachmentRecord:
    """A data set that came with its value labels."""
    record = stored(shared_stock, pupils(), "PUPILS", "sent")
    catalog = stored(shared_stock, value_labels.to_table(CATALOG), "FORMATS", "sent")
    shared_stock.message([record, catalog], id="sent")
    return record


def labelled(http: httpx.Client, record: AttachmentRecord, **query: Any) -> httpx.Response:
    return http.get(f"/v1/attachments/{record.id}/content", params={"labels": True, **query})


def test_labels_stand_in_place_of_values_in_text(shared_http: httpx.Client, sent: AttachmentRecord) -> None:
    assert labelled(shared_http, sent, format="csv").text == (
        'Name,Sex,Age\r\nAnn,Female,young\r\nBob,Male,refused\r\nCy,"",a baby\r\nDi,x,.B\r\n'
    )
    assert labelled(shared_http, sent, format="json", columns="age,name", limit=2).json() == [
        {"Age": "young", "Name": "Ann"},
        {"Age": "refused", "Name": "Bob"},
    ]
    plain = shared_http.get(f"/v1/attachments/{sent.id}/content", params={"format": "csv"})
    assert plain.text.startswith("Name,Sex,Age\r\nAnn,F,1\r\n")


def test_typed_formats_have_labels_too(shared_http: httpx.Client, sent: AttachmentRecord, tmp_path: Path) -> None:
    table = pq.read_table(BytesIO(labelled(shared_http, sent, format="parquet").content))
    assert table.to_pydict() == {
        "Name": ["Ann", "Bob", "Cy", "Di"],
        "Sex": ["Female", "Male", "", "x"],
        "Age": ["young", "refused", "a baby", ".B"],
    }
    said = table.schema.field("Age").metadata
    assert (said[b"sas.label"], said[b"sas.type"]) == (b"Age group", b"character")
    assert value_labels.read(said[b"sas.value_labels"].decode()) == CATALOG["AGEF"]
    for name in ("xpt", "xpt-v5"):
        path = tmp_path / f"{name}.xpt"
        path.write_bytes(labelled(shared_http, sent, format=name).content)
        frame, about = pyreadstat.read_xport(path)
        assert frame["Age" if name == "xpt" else "AGE"].tolist() == ["young", "refused", "a baby", ".B"]
        widths = {each.casefold(): width for each, width in about.variable_storage_width.items()}
        assert widths == {"name": 24, "sex": 6, "age": 7}
    for name, read in DATASET_JSON.items():
        whole = read(labelled(shared_http, sent, format=name).content)
        dataset_json.check(whole)
        assert [column["length"] for column in whole["columns"]] == [24, 6, 7]
    for name in ("arrow", "ndjson", "sas"):
        assert labelled(shared_http, sent, format=name).status_code == 200


@pytest.mark.parametrize("storage", ["store", "journal"])
def test_a_sas7bcat_of_the_same_message_has_value_labels(
    stock: Stock, http: httpx.Client, tmp_path: Path, storage: str
) -> None:
    data = write_sas7bcat(tmp_path / "f.sas7bcat", {"$SEX": {"F": "Woman"}}).read_bytes()
    record = stored(stock, pupils(), "PUPILS", "m")
    make = stock.stored if storage == "store" else stock.journalled
    files = [stock.stored(b"x", message_id="m"), make(data, qualifier_2="d:\\f.SAS7BCAT", message_id="m")]
    stock.message([record, *files], id="m")
    assert labelled(http, record, format="csv", columns="Sex", limit=1).text == "Sex\r\nWoman\r\n"


def test_a_catalog_too_large_to_be_handed_over_from_the_journal_is_a_limit(stock: Stock, http: httpx.Client) -> None:
    record = stored(stock, pupils(), "PUPILS", "m")
    data = bytes(stock.settings.limits.conversion_memory // 4 + 1)
    catalog = stock.journalled(data, 1 << 20, qualifier_2="f.sas7bcat", message_id="m")
    stock.message([record, catalog], id="m")
    problem = labelled(http, record, format="csv").json()
    assert (problem["type"], problem["limit"]) == ("/problems/conversion-limit", "limits.conversion_memory")
    assert f"{len(data):,} bytes are still in the journal" in problem["detail"]


def test_labels_that_nobody_sent_are_refused(stock: Stock, http: httpx.Client) -> None:
    alone = stored(stock, pupils(), "PUPILS")
    problem = labelled(http, alone, format="csv").json()
    assert (problem["status"], problem["errors"][0]["parameter"]) == (422, "labels")
    damaged = stored(stock, pupils(), "PUPILS", "m")
    stock.message([damaged, stock.stored(b"no catalog", qualifier_2="formats.sas7bcat", message_id="m")], id="m")
    problem = labelled(http, damaged, format="csv").json()
    assert problem["status"] == 422
    assert problem["detail"] == "not a sas7bcat file: its first 32 bytes differ"


def test_the_entity_tag_depends_on_the_catalog(stock: Stock, http: httpx.Client) -> None:
    tags = set()
    for label in ("Man", "Male"):
        record = stored(stock, pupils(), "PUPILS", label)
        catalog = stored(stock, value_labels.to_table({"$SEX": {"M": label}}), "FORMATS", label)
        stock.message([record, catalog], id=label)
        tags.add(labelled(http, record, format="csv").headers["ETag"])
    assert len(tags) == 2


# --- profiles -------------------------------------------------------------------------------------------------------


def test_a_profile_has_every_variable(shared_http: httpx.Client, sent: AttachmentRecord) -> None:
    found = shared_http.get(f"/v1/attachments/{sent.id}/profile", params={"top": 2}).json()
    assert (found["library"], found["member"], found["observations"]) == ("WORK", "PUPILS", 4)
    assert [each["name"] for each in found["variables"]] == ["Name", "Sex", "Age"]
    assert found["variables"][2] == {
        "number": 3,
        "name": "Age",
        "column": "Age",
        "type": "numeric",
        "label": "Age group",
        "format": "AGEF8.",
        "count": 2,
        "missing_values": {".A": 1, ".B": 1},
        "distinct": 2,
        "is_exact": True,
        "distinct_error": 0,
        "minimum": 0.5,
        "maximum": 1,
        "mean": 0.75,
        "frequent": [{"value": 0.5, "count": 1}, {"value": 1, "count": 1}],
        "frequent_error": 0,
        "histogram": {"start": 0.5, "width": 0.03125, "counts": [1, *(15 * [0]), 1]},
    }
    assert found["variables"][1]["missing_values"] == {"blank": 1}


def test_profiles_have_the_errors_of_schemas(shared_stock: Stock, shared_http: httpx.Client) -> None:
    records = {
        "not-a-data-set": shared_stock.stored(b"x"),
        "not-ready": shared_stock.receiving([(1, 2)], 3, kind=AttachmentKind.DATA_SET),
        "gone": shared_stock.attachment(state=AttachmentState.DELETED, kind=AttachmentKind.DATA_SET),
    }
    for word, record in records.items():
        answers = [shared_http.get(f"/v1/attachments/{record.id}/{what}") for what in ("schema", "profile")]
        assert {answer.json()["type"] for answer in answers} == {f"/problems/{word}"}
        assert answers[0].status_code == answers[1].status_code
    assert shared_http.get("/v1/attachments/no-such/profile").status_code == 404
    assert shared_http.get("/v1/attachments/no-such/profile", params={"top": 101}).status_code == 422


def test_a_profile_of_lost_content_is_a_problem(stock: Stock, http: httpx.Client) -> None:
    record = stored(stock, pupils(), "PUPILS")
    assert record.object_name is not None
    stock.store.delete(record.object_name)
    assert http.get(f"/v1/attachments/{record.id}/profile").json()["type"] == "/problems/damaged"


def test_openapi_has_an_example(shared_http: httpx.Client) -> None:
    schemas = shared_http.get("/openapi.json").json()["components"]["schemas"]
    assert schemas["VariableProfileView"]["properties"]["missing_values"]["examples"] == [{"blank": 1}]

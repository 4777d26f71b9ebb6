from io import BytesIO

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.codecs.sas.data_set_messages import DataSetDefinition, Variable
from app.dataset.decode import first_plan
from app.dataset.observation_layout import Representation
from app.model.attachment import AttachmentKind
from app.model.records import AttachmentRecord
from tests.web.stock import Stock

PARQUET = "application/vnd.apache.parquet"


def class_data_set() -> bytes:
    variables = [
        Variable(name="Name", type=b"\2", length=8, label="First name", format="$", format_length=8),
        Variable(name="Age", length=8, format="BEST", format_length=5, format_decimal=1, informat="F"),
    ]
    definition = DataSetDefinition(type=1, label="Pupils", variables=2, obs_length=16, observations=2)
    metadata = {"sas.library": "SASHELP", "sas.member": "CLASS"}
    schema = first_plan(definition, variables, Representation("big"), lambda: (), metadata).schema
    sink = BytesIO()
    pq.write_table(pa.table([["Alfred", "Alice"], [14.0, 13.0]], schema=schema), sink)
    return sink.getvalue()


@pytest.fixture(scope="module")
def data_set(shared_stock: Stock) -> AttachmentRecord:
    return shared_stock.stored(
        class_data_set(), PARQUET, kind=AttachmentKind.DATA_SET, qualifier_1="SASHELP", qualifier_2="CLASS"
    )


def test_the_schema_reads_like_proc_contents(shared_http: httpx.Client, data_set: AttachmentRecord) -> None:
    seen = shared_http.get(f"/v1/attachments/{data_set.id}/schema").json()
    assert (seen["library"], seen["member"], seen["label"], seen["observations"]) == ("SASHELP", "CLASS", "Pupils", 2)
    name, age = seen["variables"]
    assert name == {
        "number": 1,
        "name": "Name",
        "column": "Name",
        "type": "character",
        "length": 8,
        "label": "First name",
        "format": "$8.",
        "informat": "",
        "kind": None,
        "arrow_type": "string",
        "missing_column": None,
        "bytes_column": None,
        "notes": [],
    }
    assert (age["type"], age["format"], age["informat"], age["arrow_type"]) == ("numeric", "BEST5.1", "F.", "double")
    assert seen["attributes"]["encoding"] == "utf-8"


@pytest.mark.parametrize(
    ("accept", "query", "is_text"),
    [
        (None, "", False),
        ("*/*", "", False),
        ("application/json, text/plain;q=0.5", "", False),
        ("text/plain", "", True),
        ("text/*;q=0.9, application/json;q=0.1", "", True),
        ("application/json", "?format=text", True),
        ("text/plain", "?format=json", False),
    ],
)
def test_the_schema_as_text(
    shared_http: httpx.Client, data_set: AttachmentRecord, accept: str | None, query: str, is_text: bool
) -> None:
    headers = {"Accept": accept} if accept else {}
    response = shared_http.get(f"/v1/attachments/{data_set.id}/schema{query}", headers=headers)
    assert response.headers["vary"] == "Accept"
    if is_text:
        assert response.headers["content-type"] == "text/plain; charset=utf-8"
        assert "Data Set Name          SASHELP.CLASS" in response.text
        assert "1    Name        Char      8    $8.                    First name" in response.text
    else:
        assert response.json()["member"] == "CLASS"


def test_a_data_set_has_no_character_set_to_convert(shared_http: httpx.Client, data_set: AttachmentRecord) -> None:
    for query in ("charset=utf-8", "charset=utf-8&format=csv"):
        refused = shared_http.get(f"/v1/attachments/{data_set.id}/content?{query}")
        assert (refused.status_code, refused.json()["errors"][0]["parameter"]) == (422, "charset")


def test_a_file_is_no_data_set(shared_stock: Stock, shared_http: httpx.Client) -> None:
    record = shared_stock.stored(b"text")
    assert shared_http.get(f"/v1/attachments/{record.id}/schema").json()["type"] == "/problems/not-a-data-set"
    assert shared_http.get(f"/v1/attachments/{record.id}/content?format=csv").status_code == 406
    assert shared_http.get(f"/v1/attachments/{record.id}/content", headers={"Accept": "text/csv"}).status_code == 200

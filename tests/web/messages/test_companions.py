"""Files given beside data sets: catalogs of value labels, and define.xml."""

import json
from io import BytesIO
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from tests.support.define_xml import define_xml
from tests.support.readstat import Formats, Rows, Written, write_sas7bcat, write_sas7bdat
from tests.web.messages.sending import delivery
from tests.web.stock import Stock

FORMATS: Formats = {"AGEF": {1.0: "young", 2.0: "old"}, "$SEX": {"M": "Male", "F": "Female"}, "OTHER": {1.0: "unused"}}


@pytest.fixture(scope="module")
def pupils(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sas") / "pupils.sas7bdat"
    variables = [Written("NAME", 8), Written("SEX", 1, format="$SEX."), Written("AGE", format="AGEF.")]
    rows: Rows = [("Ann", "F", 1.0), ("Bob", "M", ".A"), ("Cy", "", 3.0)]
    return write_sas7bdat(path, variables, rows, table="PUPILS").read_bytes()


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_sas7bcat(tmp_path_factory.mktemp("sas") / "formats.sas7bcat", FORMATS).read_bytes()


def posted(
    http: httpx.Client, parts: dict[str, tuple[str, bytes]], attachments: list[dict[str, Any]], **query: Any
) -> httpx.Response:
    described = {"destination": "partner", "attachments": [{"kind": "data-set", **each} for each in attachments]}
    files: list[Any] = [("message", (None, json.dumps(described).encode(), "application/json"))]
    files += [(name, (*file, "application/octet-stream")) for name, file in parts.items()]
    return http.post("/v1/messages", files=files, params=query)


def tables(stock: Stock, response: httpx.Response) -> dict[str, Any]:
    found = {}
    for attachment in delivery(stock, response).attachments:
        stored = b"".join(stock.store.read(attachment.object_name))
        found[f"{attachment.qualifier_1}.{attachment.qualifier_2}"] = pq.read_table(BytesIO(stored))
    return found


def test_the_value_labels_of_used_formats_go_out_as_one_more_data_set(
    stock: Stock, http: httpx.Client, pupils: bytes, catalog: bytes
) -> None:
    parts = {"a": ("pupils.sas7bdat", pupils), "f": ("formats.sas7bcat", catalog)}
    entry = {"part": "a", "name": "LIB.PUPILS", "data_set": {"catalog": "f"}}
    told = posted(http, parts, [entry], dry_run=True).json()
    assert [each["name"] for each in told["attachments"]] == ["PUPILS", "FORMATS"]
    assert told["attachments"][0]["data_set"]["value_labels"] == {"$SEX": 2, "AGEF": 2}
    assert not list(stock.store.names())
    found = tables(stock, posted(http, parts, [entry]))
    assert list(found) == ["LIB.PUPILS", "LIB.FORMATS"]
    assert found["LIB.PUPILS"].schema.field("AGE").metadata[b"sas.value_labels"] == b'{"1":"young","2":"old"}'
    assert found["LIB.FORMATS"].to_pydict() == {
        "FMTNAME": ["SEX", "SEX", "AGEF", "AGEF"],
        "START": ["M", "F", "1", "2"],
        "END": ["M", "F", "1", "2"],
        "LABEL": ["Male", "Female", "young", "old"],
        "TYPE": ["C", "C", "N", "N"],
    }
    assert len(list(stock.store.names())) == 2, "files that are not sent are not kept"


def test_a_form_takes_a_catalog_and_a_define_xml(
    stock: Stock, http: httpx.Client, pupils: bytes, catalog: bytes
) -> None:
    form = {"destination": "partner", "kind": "data-set"}
    files = {
        "define": ("define.xml", define_xml().encode()),
        "file": ("pupils.sas7bdat", pupils),
        "catalog": ("formats.sas7bcat", catalog),
    }
    found = tables(stock, http.post("/v1/messages", data=form, files=files))
    assert list(found) == ["WORK.PUPILS", "WORK.FORMATS"]
    schema = found["WORK.PUPILS"].schema
    assert schema.field("NAME").metadata[b"sas.label"] == b"First name"
    assert schema.field("AGE").metadata[b"sas.value_labels"] == b'{"1":"young","2":"old"}'


def test_value_labels_in_the_metadata_of_an_uploaded_file_are_sent(
    stock: Stock, http: httpx.Client, pupils: bytes, catalog: bytes
) -> None:
    parts = {"a": ("pupils.sas7bdat", pupils), "f": ("formats.sas7bcat", catalog)}
    first = tables(stock, posted(http, parts, [{"part": "a", "data_set": {"catalog": "f"}}]))["WORK.PUPILS"]
    sink = BytesIO()
    pq.write_table(first, sink)
    again = tables(stock, posted(http, {"a": ("pupils.parquet", sink.getvalue())}, [{"part": "a"}]))
    assert again["WORK.FORMATS"]["LABEL"].to_pylist() == ["Male", "Female", "young", "old"]


def test_a_message_with_its_own_data_set_of_formats_gets_no_other(
    stock: Stock, http: httpx.Client, pupils: bytes, catalog: bytes
) -> None:
    own = b"FMTNAME,START,LABEL\r\nAGEF,1,mine\r\n"
    parts = {"a": ("pupils.sas7bdat", pupils), "b": ("formats.csv", own), "f": ("formats.sas7bcat", catalog)}
    found = tables(stock, posted(http, parts, [{"part": "a", "data_set": {"catalog": "f"}}, {"part": "b"}]))
    assert found["WORK.FORMATS"]["LABEL"].to_pylist() == ["mine"]


def test_two_labels_for_one_format_are_refused(shared_http: httpx.Client, pupils: bytes, catalog: bytes) -> None:
    other = b"FMTNAME,START,LABEL\r\nAGEF,1,mine\r\n"
    parts = {"a": ("a.sas7bdat", pupils), "b": ("b.sas7bdat", pupils), "f": ("f", catalog), "g": ("g.csv", other)}
    attachments = [
        {"part": "a", "name": "A.A", "data_set": {"catalog": "f"}},
        {"part": "b", "name": "A.B", "data_set": {"catalog": "g"}},
    ]
    problem = posted(shared_http, parts, attachments).json()
    assert problem["type"] == "/problems/unsuitable"
    assert problem["errors"] == [
        {
            "pointer": "#/attachments/1/data_set",
            "detail": "the format AGEF has other value labels in another data set of the message",
            "code": "value-labels",
        }
    ]


BOMB = b'<!DOCTYPE ODM [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><ODM>&b;</ODM>'


@pytest.mark.parametrize(
    ("member", "name", "data", "why"),
    [
        ("catalog", "x.dat", b"SAS", "catalog: x.dat: it is neither a sas7bcat nor a data set with FMTNAME"),
        ("catalog", "x.csv", b'A,B\n1,2\n1,"', "catalog: x.csv: row 2: "),
        (
            "define",
            "x.dat",
            BOMB,
            "define.xml: x.dat: it has a document type (<!DOCTYPE …>), which is not read",
        ),
        ("define", "define.xml", b"no XML", "define.xml: not well-formed XML"),
    ],
)
def test_a_faulty_one_is_a_problem_that_names_it(
    shared_http: httpx.Client, pupils: bytes, member: str, name: str, data: bytes, why: str
) -> None:
    parts = {"a": ("pupils.sas7bdat", pupils), "x": (name, data)}
    response = posted(shared_http, parts, [{"part": "a", "data_set": {member: "x"}}])
    assert (response.status_code, response.json()["type"]) == (422, "/problems/unsuitable")
    assert response.json()["errors"][0]["detail"].startswith(why)


def test_parts_must_fit_the_description(shared_stock: Stock, shared_http: httpx.Client, pupils: bytes) -> None:
    lacking = posted(shared_http, {"a": ("a", pupils)}, [{"part": "a", "data_set": {"catalog": "f"}}]).json()
    assert lacking["errors"] == [{"pointer": "#/attachments/0/data_set/catalog", "detail": "there is no part 'f'"}]
    both = posted(shared_http, {"a": ("a", pupils)}, [{"part": "a", "data_set": {"define": "a"}}]).json()
    assert "the part 'a' is an attachment, and a catalog or define.xml" in both["detail"]
    form = [("file", ("a", pupils)), ("define", ("1", b"<a/>")), ("define", ("2", b"<a/>"))]
    twice = shared_http.post("/v1/messages", data={"destination": "partner", "kind": "data-set"}, files=form).json()
    assert twice["detail"] == "the file 'define' is repeated"
    assert not list(shared_stock.store.names())


def test_a_damaged_sas7bdat_is_a_problem(shared_http: httpx.Client, pupils: bytes) -> None:
    response = posted(shared_http, {"a": ("a.sas7bdat", pupils[:5000])}, [{"part": "a"}])
    assert (response.status_code, response.json()["type"]) == (422, "/problems/unsuitable")
    assert "the sas7bdat file is damaged" in response.json()["detail"]

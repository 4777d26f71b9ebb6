"""define.xml beside a file."""

import io

import pyarrow as pa
import pytest

from app.dataset import value_labels
from app.model.errors import InvalidInputError
from app.tables.read import define_xml
from app.tables.read.defining import Definition, define
from app.tables.read.read_request import DataSetOverrides, DataSetTarget, ReadOptions, VariableOverrides
from tests.support import define_xml as example
from tests.support.tables import field
from tests.tables.out.making import made

CSV = b"Name,SEX,AGEGR,BORN,ROOM,OTHER\r\nAnn,F,2,2014-02-28,007,1\r\nBob,M,1,,12,2\r\n"


def read(text: str | bytes) -> define_xml.Definitions:
    return define_xml.read(io.BytesIO(text.encode() if isinstance(text, str) else text))


def defined(data: bytes, name: str, wishes: DataSetOverrides | None = None) -> Definition:
    wishes = wishes or DataSetOverrides(file_stem="pupils")
    definitions = read(example.define_xml())
    return define(
        define_xml.read_enriched(io.BytesIO(data), name, ReadOptions(), wishes, definitions),
        wishes,
        DataSetTarget(),
        definitions.catalog,
    )


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_both_versions_are_read(version: str) -> None:
    found = read(example.define_xml(version))
    group = found.group("pupils")
    assert group is not None
    assert group.label == "Pupils of a class"
    assert group.items["agegr"] == define_xml.DefinedItem("AGEGR", "Age group", True, 1, "1.", "AGEGR1_")
    assert found.catalog == {
        "$SEX": {"F": "Female", "M": "Male"},
        "AGEGR1_": {"1": "Under 12", "2": "12 and older"},
    }


def test_a_csv_gets_labels_types_lengths_formats_and_value_labels() -> None:
    found = defined(CSV, "csv")
    assert not found.errors
    assert found.label == "Pupils of a class"
    assert [(each.name, each.type, each.length, each.format, each.label) for each in found.variables] == [
        ("Name", "character", 20, "", "First name"),
        ("SEX", "character", 1, "$SEX.", "Sex"),
        ("AGEGR", "numeric", 8, "AGEGR1_.", "Age group"),
        ("BORN", "numeric", 8, "DATE9.", "Date of birth"),
        ("ROOM", "character", 3, "", ""),
        ("OTHER", "numeric", 8, "", ""),
    ]
    assert found.catalog == {"$SEX": {"F": "Female", "M": "Male"}, "AGEGR1_": {"1": "Under 12", "2": "12 and older"}}
    rows = pa.Table.from_batches(found.batches(), found.schema)
    assert rows["ROOM"].to_pylist() == ["007", "12"], "text, as define.xml says, and not a number"
    assert [fault.why for fault in found.warnings] == ["define.xml has variables that the file lacks: GONE"]
    said = rows.schema.field("SEX").metadata
    assert said[b"sas.value_labels"] == b'{"F":"Female","M":"Male"}'


def test_what_the_file_says_takes_precedence_and_the_sender_before_it() -> None:
    schema = pa.schema(
        [field("NAME", pa.string(), label="of the file"), field("BORN", pa.float64(), format="YYMMDD10.")],
        {"sas.member": "PUPILS", "sas.label": "of the file"},
    )
    data = made(pa.table([["Ann"], [1.0]], schema=schema), "parquet")
    found = defined(data, "parquet")
    assert [(each.label, each.format, each.length) for each in found.variables] == [
        ("of the file", "$24.", 24),
        ("Date of birth", "YYMMDD10.", 8),
    ]
    assert found.label == "of the file"
    wishes = DataSetOverrides(label="given", variables={"born": VariableOverrides("BORN", label="given")})
    found = defined(data, "parquet", wishes)
    assert (found.label, found.variables[1].label) == ("given", "given")


def test_long_lists_of_many_variables_do_not_fill_the_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_labels, "MOST_METADATA", 30)
    found = defined(CSV, "csv")
    kept = [field.name for field in found.schema if b"sas.value_labels" in field.metadata]
    assert (kept, list(found.catalog)) == (["SEX"], ["$SEX", "AGEGR1_"])


def test_a_data_set_that_is_not_described_is_sent_with_a_warning() -> None:
    found = defined(CSV, "csv", DataSetOverrides(file_stem="teachers"))
    assert [fault.why for fault in found.warnings if "define" in fault.why] == [
        "define.xml describes no data set teachers"
    ]


def test_code_lists_with_the_same_name_get_different_formats() -> None:
    lists = "".join(
        f'<CodeList OID="{oid}" DataType="text"><CodeListItem CodedValue="{value}">'
        "<Decode><TranslatedText>x</TranslatedText></Decode></CodeListItem></CodeList>"
        for oid, value in (("CL.A", "1"), ("CL-A", "2"), ("A", "1"))
    )
    found = read(f'<ODM><ItemGroupDef OID="IG.X" Name="X"/>{lists}</ODM>')
    assert found.catalog == {"$A": {"1": "x"}, "$A_A": {"2": "x"}}


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
FAULTY = {
    "entities": (f'<?xml version="1.0"?><!DOCTYPE ODM [<!ENTITY l0 "ha">{LAUGHS}]><ODM>&l9;</ODM>', "document type"),
    "external": ('<!DOCTYPE ODM SYSTEM "file:///etc/passwd"><ODM/>', "document type"),
    "external entity": ('<!DOCTYPE ODM [<!ENTITY x SYSTEM "file:///etc/passwd">]><ODM>&x;</ODM>', "document type"),
    "cut": (example.define_xml()[:900], "not well-formed XML"),
    "no XML": ("a,b\n1,2\n", "not well-formed XML"),
    "nothing": ("", "not well-formed XML"),
    "something else": ("<html/>", "describes no data set"),
    "deep": ("<a>" * 100_000, "nested more than 64 deep"),
    "character set": ('<?xml version="1.0" encoding="no-such"?><ODM/>', "its text cannot be read|not well-formed"),
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_faulty_one_is_refused_with_a_reason(name: str) -> None:
    text, why = FAULTY[name]
    with pytest.raises(InvalidInputError, match=why):
        read(text)


def test_one_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(define_xml, "MOST_BYTES", 1000)
    with pytest.raises(InvalidInputError, match="at most 1,000 are read"):
        read(example.define_xml())

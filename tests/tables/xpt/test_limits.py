"""What transport files cannot hold is told all at once, or changed on request."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.codecs import code_pages
from app.tables.xpt.xpt_layouts import Version
from app.tables.xpt.xpt_limits import LIMITS, Misfit, UnfitTableError, charset_of, fit

VERSIONS: tuple[Version, ...] = (5, 8)


def numeric(name: str, **said: str) -> pa.Field:
    return pa.field(name, pa.float64(), metadata={f"sas.{key}": value for key, value in said.items()})


def character(name: str, length: int, **said: str) -> pa.Field:
    kept = {"type": "character", "length": str(length)} | said
    return pa.field(name, pa.string(), metadata={f"sas.{key}": value for key, value in kept.items()})


def names_of(schema: pa.Schema) -> list[str]:
    return [field.metadata[b"sas.name"].decode() for field in schema]


WIDE = pa.schema(
    [
        numeric("revenue_2024", label="x" * 41, format="LONGFORMATS8.2"),
        numeric("revenue_2025"),
        character("comment", 201, informat="$CHAR500."),
        numeric("bad-name"),
        numeric("2nd"),
        numeric("ok"),
    ],
    {"sas.member": "SALES_OF_2024", "sas.label": "y" * 41, "sas.dataset_type": "TYPE OF IT"},
)


def test_everything_that_does_not_fit_is_told_at_once() -> None:
    with pytest.raises(UnfitTableError) as refused:
        fit(WIDE, 5, charset="utf-8")
    told = {(misfit.column, misfit.what) for misfit in refused.value.misfits}
    assert told == {
        ("", "name"),
        ("", "label"),
        ("", "type"),
        ("revenue_2024", "name"),
        ("revenue_2024", "label"),
        ("revenue_2024", "format"),
        ("revenue_2025", "name"),
        ("comment", "length"),
        ("bad-name", "name"),
        ("2nd", "name"),
    }
    for misfit in refused.value.misfits:
        assert misfit.value in str(refused.value)


def test_what_does_not_fit_is_changed_on_request_and_told() -> None:
    fitted, changes = fit(WIDE, 5, charset="utf-8", rename=True)
    assert names_of(fitted) == ["REVENUE_", "REVENUE2", "COMMENT", "BAD_NAME", "_2ND", "OK"]
    assert fitted.names == WIDE.names
    said = [field.metadata for field in fitted]
    assert (said[0][b"sas.label"], said[0][b"sas.format"]) == (b"x" * 40, b"")
    assert (said[2][b"sas.length"], said[2][b"sas.informat"]) == (b"200", b"$CHAR500.")
    assert fitted.metadata[b"sas.member"] == b"SALES_OF"
    assert fitted.metadata[b"sas.label"] == b"y" * 40
    assert fitted.metadata[b"sas.dataset_type"] == b"TYPE OF"
    assert Misfit("revenue_2025", "name", "revenue_2025", "REVENUE2", "is longer than 8 bytes") in changes
    assert Misfit("bad-name", "name", "bad-name", "BAD_NAME", "has characters that a name cannot have") in changes
    assert fit(fitted, 5, charset="utf-8") == (fitted, ())


def test_version_8_holds_what_version_5_does_not() -> None:
    schema = WIDE.with_metadata({b"sas.member": b"SALES_OF_2024"})
    fitted, changes = fit(schema, 8, charset="utf-8")
    assert changes == ()
    assert names_of(fitted) == WIDE.names


def test_a_length_is_shortened_unless_a_value_needs_it() -> None:
    schema = pa.schema([character("C", 300)])
    fitted, _ = fit(schema, 5, charset="utf-8", rename=True, lengths={"C": 200})
    assert fitted.field("C").metadata[b"sas.length"] == b"200"
    with pytest.raises(UnfitTableError) as refused:
        fit(schema, 5, charset="utf-8", rename=True, lengths={"C": 201})
    assert [misfit.becomes for misfit in refused.value.misfits] == [None]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_name_of_a_data_set_is_made_to_fit(version: Version) -> None:
    for member in ("sales-2024", "2024", "é" * 40, "  ", "€"):
        schema = pa.schema([numeric("X")], {"sas.member": member})
        fitted, _ = fit(schema, version, charset="latin-1", rename=True)
        name = fitted.metadata[b"sas.member"].decode()
        assert 1 <= len(name.encode("latin-1")) <= LIMITS[version].member
        assert fit(fitted, version, charset="latin-1").changes == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_formats_in_characters_that_the_set_lacks_are_dropped(version: Version) -> None:
    schema = pa.schema([numeric("X", format="€8.2", informat="BEST99999.")])
    fitted, changes = fit(schema, version, charset="latin-1", rename=True)
    assert fitted.field("X").metadata[b"sas.format"] == fitted.field("X").metadata[b"sas.informat"] == b""
    assert [change.what for change in changes] == ["format", "informat"]


def test_bytes_count_and_not_characters() -> None:
    schema = pa.schema([numeric("N", label="é" * 21)])
    assert fit(schema, 5, charset="latin-1").changes == ()
    fitted, _ = fit(schema, 5, charset="utf-8", rename=True)
    assert fitted.field("N").metadata[b"sas.label"].decode() == "é" * 20
    with pytest.raises(UnfitTableError):
        fit(pa.schema([numeric("N", label="€")]), 5, charset="latin-1")


def test_names_that_differ_in_case_only_are_one() -> None:
    schema = pa.schema([numeric("X"), numeric("x")])
    for version in VERSIONS:
        with pytest.raises(UnfitTableError):
            fit(schema, version, charset="utf-8")
        names = names_of(fit(schema, version, charset="utf-8", rename=True).schema)
        assert [name.upper() for name in names] == ["X", "X2"]


@pytest.mark.parametrize(
    ("version", "became"), [(5, ["_N_2", "X", "_NULL_2", "_N_3", "_CHARACT"]), (8, ["_n_2", "X", "_Null_2", "_N-"])]
)
def test_names_that_sas_reserves_are_told_and_changed_on_request(version: Version, became: list[str]) -> None:
    names = ["_n_", "X", "_Null_", "_N-", "_CHARACTER_"][: len(became)]
    schema = pa.schema([numeric(name) for name in names], {"sas.member": "_all_"})
    with pytest.raises(UnfitTableError) as refused:
        fit(schema, version, charset="utf-8")
    told = {misfit.column for misfit in refused.value.misfits if misfit.why == "is reserved by SAS"}
    assert told == {"", "_n_", "_Null_"}
    fitted, _ = fit(schema, version, charset="utf-8", rename=True)
    assert (names_of(fitted), fitted.metadata[b"sas.member"].decode().upper()) == (became, "_ALL_2")
    assert fit(fitted, version, charset="utf-8").changes == ()


def test_many_names_with_one_beginning_stay_apart() -> None:
    schema = pa.schema([numeric(f"measurement_{number}") for number in range(30_000)])
    names = names_of(fit(schema, 5, charset="utf-8", rename=True).schema)
    assert len(set(names)) == len(names)
    assert names[:3] == ["MEASUREM", "MEASURE2", "MEASURE3"]
    assert (names[8], names[9], names[-1]) == ("MEASURE9", "MEASUR10", "MEA30000")


@given(
    st.lists(st.text(max_size=40), min_size=1, max_size=12, unique=True),
    st.sampled_from(VERSIONS),
    st.sampled_from(["utf-8", "latin-1", "shift_jis"]),
)
def test_any_names_become_names(names: list[str], version: Version, charset: str) -> None:
    schema = pa.schema([numeric(name) for name in names])
    fitted, changes = fit(schema, version, charset=charset, rename=True)
    became = names_of(fitted)
    assert len({"".join(c.lower() if c.isascii() else c for c in name) for name in became}) == len(names)
    for name in became:
        assert name.strip() == name
        assert 1 <= len(name.encode(charset)) <= LIMITS[version].name
        assert version == 8 or (name.isascii() and name.isidentifier() and name.upper() == name)
    assert fit(fitted, version, charset=charset).changes == ()
    changed = {misfit.column for misfit in changes}
    for name, new in zip(names, became, strict=True):
        assert (name.upper() if version == 5 else name) == new or name in changed


LATIN = ["cp037", "ibm277", "ibm278", "ibm280", "ibm284", "ibm285", "ibm297", "cp500", "ibm871", "ibm1047"]
NOT_LATIN = ["cp273", "cp1026", "cp1140", *(f"ibm{number}" for number in range(1141, 1150)), "utf-16-be"]


@pytest.mark.parametrize(
    ("stated", "written"), [*((each, "latin-1") for each in LATIN), *((each, "utf-8") for each in NOT_LATIN)]
)
def test_texts_in_ebcdic_keep_their_lengths_where_latin_1_has_their_characters(stated: str, written: str) -> None:
    assert stated in code_pages.ADDED or not stated.startswith("ibm")
    assert charset_of(pa.schema([], {"sas.encoding": stated})) == written

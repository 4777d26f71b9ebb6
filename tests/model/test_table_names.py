import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.model.names import FILES, library_and_member, plain_library, table_name
from app.pipeline.commit.tables import QUALITY


@pytest.mark.parametrize(
    ("library", "member", "table"),
    [
        ("WORK", "TRADES", "WORK.TRADES"),
        ("work", "Trades", "WORK.TRADES"),
        ("", "trades", "WORK.TRADES"),
        ("WORK    ", "X\0\0", "WORK.X"),
        ("lib", "", "LIB._UNNAMED_"),
        ("", "files", "WORK.FILES"),
        ("a.b", "c", "'A.B'.C"),
        ("a", "b.c", "A.B.C"),
        ("it's", "x", "'IT''S'.X"),
        ("données", "été", "DONNéES.éTé"),
        ("lib", "straße", "LIB.STRAßE"),
        ("lib", "STRASSE", "LIB.STRASSE"),
        ("lib", " x ", "LIB. X"),
    ],
)
def test_a_data_set_has_the_name_that_sas_gives_it(library: str, member: str, table: str) -> None:
    assert table_name(library, member) == table


WORDS = st.text("aB.'", min_size=1, max_size=6)


@given(WORDS, WORDS, WORDS, WORDS)
def test_different_data_sets_have_different_tables(library: str, member: str, other: str, other_member: str) -> None:
    is_same = (library.upper(), member.upper()) == (other.upper(), other_member.upper())
    assert (table_name(library, member) == table_name(other, other_member)) == is_same


@given(WORDS, WORDS)
def test_a_name_tells_its_library_and_its_member(library: str, member: str) -> None:
    found, of = library_and_member(table_name(library, member))
    assert (plain_library(found), of) == (library.upper(), member.upper())


def test_tables_of_the_pipeline_have_no_library() -> None:
    assert library_and_member(FILES) == ("", FILES)


@given(st.text(), st.text())
def test_nobody_takes_the_names_of_the_other_tables(library: str, member: str) -> None:
    assert table_name(library, member).lower() not in {FILES, QUALITY}

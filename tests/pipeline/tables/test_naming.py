import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.pipeline.tables import FILES, QUALITY, table_name


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
        ("données", "été", "DONNÉES.ÉTÉ"),
    ],
)
def test_a_data_set_has_the_name_that_sas_gives_it(library: str, member: str, table: str) -> None:
    assert table_name(library, member) == table


WORDS = st.text("aB.'", min_size=1, max_size=6)


@given(WORDS, WORDS, WORDS, WORDS)
def test_different_data_sets_have_different_tables(library: str, member: str, other: str, other_member: str) -> None:
    is_same = (library.upper(), member.upper()) == (other.upper(), other_member.upper())
    assert (table_name(library, member) == table_name(other, other_member)) == is_same


@given(st.text(), st.text())
def test_nobody_takes_the_names_of_the_other_tables(library: str, member: str) -> None:
    assert table_name(library, member).lower() not in {FILES, QUALITY}

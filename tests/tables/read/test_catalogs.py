"""Catalogs of formats: entries that are not taken are told."""

from io import BytesIO

import pytest

from app.model.errors import InvalidInputError
from app.tables.read import label_catalogs


@pytest.mark.parametrize(("more", "labels"), [(b"", {}), (b"AGEG,9,9,Nine\n", {"AGEG": {"9": "Nine"}})])
def test_ranges_of_a_catalog_give_a_warning_with_the_format(more: bytes, labels: dict[str, dict[str, str]]) -> None:
    data = b"FMTNAME,START,END,LABEL\nAGEG,10,19,Teens\n" + more
    catalog, (warning,) = label_catalogs.read(BytesIO(data), "formats.csv", "")
    assert catalog == labels
    assert "ranges" in warning.why
    assert warning.why.endswith("formats: AGEG")


def test_an_empty_catalog_is_told() -> None:
    with pytest.raises(InvalidInputError, match="the file is empty; it must have the value labels"):
        label_catalogs.read(BytesIO(b""), "formats.sas7bcat", "")


def test_a_catalog_of_single_values_gives_no_warning() -> None:
    data = b"FMTNAME,START,END,LABEL\nAGEG,9,9,Nine\n"
    assert label_catalogs.read(BytesIO(data), "formats.csv", "") == ({"AGEG": {"9": "Nine"}}, ())

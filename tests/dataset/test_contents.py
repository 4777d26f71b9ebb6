"""The listing of a data set's contents."""

from dataclasses import replace

import pyarrow as pa

from app.codecs.sas.data_set_messages import DataSetDefinition, Variable
from app.dataset.description import contents, listing
from tests.dataset.reading import read

LISTING = """\
                                       The CONTENTS Procedure

Data Set Name          CLASS                    Observations          3
Member Type            DATA                     Variables             3
Data Set Type                                   Indexes               0
Label                  Pupils                   Observation Length    25
Data Representation    IEEE, high byte first    Compressed            NO
Encoding               utf-8                    Encrypted             NO
Protection             READ                     Sorted                YES

                            Alphabetic List of Variables and Attributes

#    Variable    Type    Len    Format     Informat    Label
2    Age         Num       8    BEST5.1    F.
3    Born        Num       8    DATE9.
1    Name        Char      9    $8.                    First name

                                          Sort Information

Sortedby         DESCENDING Age Name
Character Set    ASCII

                                              Warnings

Name: values that do not decode, as bytes in Name__bytes
Age: NaNs and infinities that SAS lacks, taken as missing: 1
Born: observation 2: 1.5 is not an exact date
"""


def test_a_listing_as_proc_contents_prints_it() -> None:
    variables = [
        Variable(name="Name", type=b"\2", length=9, label="First name", format="$", format_length=8, nsort=b"\2"),
        Variable(name="Age", format="BEST", format_length=5, format_decimal=1, informat="F", nsort=b"\xff"),
        Variable(name="Born", format="DATE", format_length=9),
    ]
    definition = DataSetDefinition(
        type=1, label="Pupils", variables=3, obs_length=25, observations=3, read_flag=1, collating="ASCII"
    )
    rows = [
        b"Alfred   " + bytes.fromhex("402C000000000000 3FF0000000000000"),
        b"Alice    " + bytes.fromhex("FFFFFD0000000000 3FF8000000000000"),
        b"\xe9ric     " + bytes.fromhex("7FF8000000000000 4000000000000000"),
    ]
    table = read(definition, variables, rows, order="big")
    named = table.schema.with_metadata({**table.schema.metadata, b"sas.member": b"CLASS"})
    found = contents(named, table.num_rows)
    assert listing(found) == LISTING
    name, age, _ = found.variables
    assert (name.bytes_column, name.missing_column) == ("Name__bytes", None)
    assert (age.missing_column, age.position) == ("Age__missing", 2)
    assert [key.variable for key in found.sort_key] == ["Age", "Name"]


def test_a_table_that_is_not_from_sas_has_contents_too() -> None:
    found = contents(pa.schema({"x": pa.int64(), "s": pa.large_string()}), 0)
    assert [(each.name, each.is_numeric, each.length) for each in found.variables] == [("x", True, 8), ("s", False, 0)]
    assert "Observations          0" in listing(found)


def test_a_sort_key_that_is_none_is_not_told() -> None:
    variable = Variable(name="a", nsort=b"\2")
    definition = DataSetDefinition(type=1, variables=1, obs_length=8)
    assert contents(read(definition, [variable], [], order="big").schema, 0).sort_key == ()
    variables = [replace(variable, nsort=b"\1")]
    assert contents(read(definition, variables, [], order="big").schema, 0).sort_key == (("a", False),)

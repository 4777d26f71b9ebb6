"""Profiles of data sets, compared with what pandas counts."""

from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tables import profiles
from app.tables.profiles import Frequency, Profile, VariableProfile, profile
from app.tables.value_counts import Histogram, HistogramCounting
from tests.support.tables import field, visits


def profiled(table: pa.Table, rows: int = 1000) -> Profile:
    return profile(table.schema, table.to_batches(rows))


def variable(found: Profile, name: str) -> VariableProfile:
    return next(each for each in found.variables if each.about.name == name)


def test_every_kind_of_column() -> None:
    found = profiled(visits(), 2)
    assert (found.library, found.member, found.label, found.observations) == ("CLINIC", "VISITS", "Who came", 5)
    seen = {
        each.about.name: (each.count, each.missing, each.minimum, each.maximum, each.mean) for each in found.variables
    }
    assert seen == {
        "Name": (4, {"blank": 1}, " lead", "😀 雪 \\ \x1f", None),
        "Age": (3, {".": 1, ".A": 1}, -0.125, 1e70, pytest.approx(1e70 / 3)),
        "Seen": (4, {".": 1}, "1582-10-15", "9999-12-31", None),
        "Stamp": (3, {".": 2}, "0001-01-01T00:00:00", "2026-11-21T08:30:00", None),
        "Clock": (3, {".": 2}, "00:00:00", "23:59:59.999999", None),
        "Stay": (4, {".": 1}, "-00:00:45", "2400:00:00", None),
        "City": (4, {"blank": 1}, "Ki\ufffdl", "y", None),
    }
    assert all(each.is_exact and each.distinct == each.count for each in found.variables)


def test_there_is_one_zero() -> None:
    (found,) = profiled(pa.table({"X": pa.array([0.0, -0.0, 0.0, 1.0])})).variables
    assert found.distinct == 2
    assert found.frequent[0] == Frequency(0, 3)


@pytest.mark.parametrize("rows", [1, 2, 1000])
def test_a_mean_whose_sum_is_beyond_a_double(rows: int) -> None:
    (found,) = profiled(pa.table({"X": pa.array([1.7e308, 1.7e308, -1.0])}), rows).variables
    assert found.mean == pytest.approx(1.7e308 / 3 * 2)


def sample(rows: int) -> pa.Table:
    dice = np.random.default_rng(1)
    ages = dice.integers(0, 90, rows).astype(np.float64)
    tags = dice.choice(np.array([None, "._", ".A"]), rows, p=[0.9, 0.04, 0.06])
    gone = np.array([tag is not None for tag in tags]) | (dice.random(rows) < 0.02)
    schema = pa.schema(
        [
            field("AGE", pa.float64()),
            pa.field("AGE__missing", pa.string(), metadata={"sas.missing_of": "AGE"}),
            field("SEX", pa.string()),
            field("BORN", pa.date32(), format="DATE9.", kind="date"),
        ]
    )
    days = dice.integers(-5000, 15000, rows).astype(np.int32)
    sexes = dice.choice(["F", "M", ""], rows, p=[0.5, 0.4, 0.1])
    columns = [
        pa.array(ages, mask=gone),
        pa.array(tags, pa.string()),
        pa.array(sexes),
        pa.array(days).cast(pa.date32()),
    ]
    return pa.table(columns, schema=schema)


def test_counts_are_those_of_pandas_whatever_the_batches() -> None:
    table = sample(20_000)
    frame = table.to_pandas()
    found = profiled(table, 777)
    ages = frame["AGE"].dropna()
    age = variable(found, "AGE")
    assert age.missing == {".": int(frame["AGE"].isna().sum() - frame["AGE__missing"].notna().sum())} | {
        tag: int((frame["AGE__missing"] == tag).sum()) for tag in ("._", ".A")
    }
    assert (age.count, age.distinct, age.minimum, age.maximum) == (len(ages), ages.nunique(), ages.min(), ages.max())
    assert age.mean == pytest.approx(ages.mean())
    assert [each.count for each in age.frequent] == ages.value_counts().head(10).tolist()
    sexes = frame["SEX"].value_counts()
    assert variable(found, "SEX").frequent == (Frequency("F", sexes["F"]), Frequency("M", sexes["M"]))
    assert variable(found, "SEX").missing == {"blank": sexes[""]}
    assert variable(found, "BORN").minimum == str(frame["BORN"].min())
    bins = age.histogram
    assert bins is not None
    assert bins.counts == tuple(np.histogram(ages, 23, (0, 92))[0])
    assert (bins.start, bins.width) == (0, 4)
    assert variable(found, "SEX").histogram is None


def test_too_many_different_values_are_estimated_and_the_profile_says_so() -> None:
    rows = 60_000
    numbers = np.arange(rows, dtype=np.float64)
    numbers[::3] = 7.5
    texts = [f"text {number}" for number in numbers]
    table = pa.table(
        [pa.array(numbers), pa.array(texts)], schema=pa.schema([field("N", pa.float64()), field("C", pa.string())])
    )
    found = profiled(table, 5000)
    for each, most in zip(found.variables, (7.5, "text 7.5"), strict=True):
        assert not each.is_exact
        assert each.distinct == pytest.approx(40_001, rel=5 * each.distinct_error)
        assert 0 < each.distinct_error < 0.03
        assert each.frequent[0].value == most
        assert each.frequent[0].count <= rows // 3 <= each.frequent[0].count + each.frequent_error


def test_memory_does_not_depend_on_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "MEMORY", 1 << 20)
    schema = pa.schema([field("C", pa.string())])
    most = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal most
        before = pa.total_allocated_bytes()
        for n in range(60):
            yield pa.RecordBatch.from_arrays([pa.array([f"{n} {i} {'x' * 1000}" for i in range(500)])], schema=schema)
            most = max(most, pa.total_allocated_bytes() - before)

    assert profile(schema, batches()).observations == 30_000, "30 MB of texts"
    assert most < 8 << 20


def test_values_are_shown_short() -> None:
    schema = pa.schema([field("C", pa.string())])
    (found,) = profiled(pa.table([["x" * 1000]], schema=schema)).variables
    assert found.minimum == "x" * 200 + "…"


def test_a_data_set_of_no_rows() -> None:
    found = profiled(visits().slice(0, 0))
    assert {(each.count, each.distinct, each.minimum, each.frequent) for each in found.variables} == {(0, 0, None, ())}


def _histogram(*batches: list[float]) -> Histogram | None:
    counting = HistogramCounting()
    for values in batches:
        counting.add(np.array(values, np.float64))
    return counting.result()


def test_a_histogram_has_equally_wide_bins_over_the_range() -> None:
    assert _histogram([]) is None
    assert _histogram([float("nan"), float("inf")]) is None
    assert _histogram([5, 5]) == Histogram(5, 1, (2,))
    assert _histogram([1, 2, 2, 4]) == Histogram(1, 1, (1, 2, 0, 1))
    assert _histogram([0.25], [0.5, 0.5]) is not None
    assert _histogram(list(range(64))) == Histogram(0, 2, (2,) * 32)
    assert _histogram([-1e308, 1e308, 5e-324]) is not None


@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=50), data=st.data())
def test_a_histogram_does_not_depend_on_the_order_of_the_values(values: list[float], data: st.DataObject) -> None:
    found = _histogram(values)
    assert found is not None
    assert sum(found.counts) == len(values)
    assert 1 <= len(found.counts) <= 32
    end = found.start + found.width * len(found.counts)
    assert all(found.start <= value < end or not 1e-150 < abs(value) < 1e150 for value in values)
    shuffled = data.draw(st.permutations(values))
    cut = data.draw(st.integers(0, len(values)))
    assert _histogram(shuffled[:cut], shuffled[cut:]) == found


def of_order_packets() -> pa.Table:
    """A table with every type that rows of order packets have and rows of SAS lack."""
    described = {"sapdb.type": "varchar_byte", "sapdb.length": "7", "sapdb.frac": "0"}
    fields = [
        pa.field("SMALL", pa.decimal128(5, 0)),
        pa.field("PRICE", pa.decimal128(38, 2)),
        pa.field("FLAG", pa.bool_()),
        pa.field("DATA", pa.binary(), metadata=described),
        pa.field("NAME", pa.string(), metadata=described | {"sapdb.type": "varchar_ascii"}),
    ]
    rows = [
        (4711, Decimal("1.50"), True, b"\xff\x01", "abc"),
        (None, None, None, None, None),
        (-3, Decimal("123456789012345678901234567890.12"), True, b"", ""),
        (-3, Decimal("-0.25"), False, b"\xff\x01", "abc"),
    ]
    names = [field.name for field in fields]
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], pa.schema(fields))


@pytest.mark.parametrize("most_values", [profiles.MOST_VALUES, 1])
def test_the_types_of_order_packets(most_values: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "MOST_VALUES", most_values)
    table = of_order_packets()
    found = profiled(table, 3)
    frame = table.to_pandas()
    for each in found.variables:
        values = frame[each.about.column].dropna()
        values = values[values != ""]
        assert (each.count, each.distinct) == (len(values), values.nunique()), each.about.name
        assert sum(each.missing.values()) == len(frame) - len(values)
    assert [(each.about.is_numeric, each.about.length) for each in found.variables] == [
        *[(True, 8)] * 3,
        *[(False, 7)] * 2,
    ]
    assert [(each.minimum, each.maximum) for each in found.variables] == [
        (-3, 4711),
        (-0.25, "123456789012345678901234567890.12"),
        ("false", "true"),
        ("", "ff01"),
        ("abc", "abc"),
    ]
    assert [each.mean for each in found.variables] == [
        pytest.approx(4705 / 3),
        pytest.approx(123456789012345678901234567891.37 / 3),
        None,
        None,
        None,
    ]
    assert [each.histogram is not None for each in found.variables] == [True, True, False, False, False]
    if most_values > 1:
        assert [each.frequent[0] for each in found.variables] == [
            Frequency(-3, 2),
            Frequency(-0.25, 1),
            Frequency("true", 2),
            Frequency("ff01", 2),
            Frequency("abc", 2),
        ]

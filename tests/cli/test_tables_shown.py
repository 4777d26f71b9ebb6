"""Tables by the command line: real ones in a folder, and no gateway."""

import json
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from app.cli.row_output import answered
from app.cli.terminal import Failure
from app.pipeline.commit.tables import QUALITY, Increment, hour_of
from tests.cli.conftest import Run
from tests.support.built import RECEIVED, Built, without_deltalake
from tests.support.tables import field, pupils, visits


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Tables that tests leave as they are."""
    built = Built(tmp_path_factory.mktemp("built"))
    fill(built)
    return built


@pytest.fixture
def shown(built: Built, monkeypatch: pytest.MonkeyPatch) -> Built:
    """Those tables, which commands find in the environment."""
    monkeypatch.setenv("ATTACHMENT_GATEWAY_TABLES__URL", str(built.folder))
    return built


def fill(built: Built) -> None:
    built.append(pupils(), pupils())
    built.append(visits())
    built.append(pa.table([["M"]], schema=pa.schema([field("Sex", pa.string(), label="Sex")])), member="MIXED")
    built.append(pa.table([[1.0]], schema=pa.schema([field("Sex", pa.float64())])), member="MIXED")
    built.append(pa.table([["\x1b[2Jred [bold]x"]], schema=pa.schema([field("T", pa.string())])), member='ODD "NAME"')
    hour = hour_of(RECEIVED)
    built.quality([Increment("orders", hour, messages=7, missing_ranges=2)])
    built.quality([Increment("orders", hour, messages=3, missing_ranges=-2)])


def as_records(output: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.splitlines()]


# --- which there are, and what they are like ----------------------------------------------------------------------


def test_ls(run: Run, shown: Built) -> None:
    lines = run("tables", "ls").out.splitlines()
    assert lines[0].split() == ["Name", "Rows", "Columns", "Files", "Size", "Version", "Modified", "(UTC)"]
    assert [line.split()[0] for line in lines[1:]] == [
        "CLINIC.VISITS",
        "WORK.MIXED",
        "WORK.ODD",
        "WORK.PUPILS",
        QUALITY,
    ]
    assert lines[4].split()[1:4] == ["6", "9", "1"]
    told = as_records(run("tables", "ls", "--json").out)
    assert [(table["name"], table["rows"]) for table in told][3] == ("WORK.PUPILS", 6)


def test_nothing_was_built(run: Run, tmp_path: Path) -> None:
    missing = run("tables", "ls", "--tables", tmp_path / "none")
    assert (missing.code, missing.err) == (1, f"error: cannot read {tmp_path / 'none'}: no such folder\n")
    assert not (tmp_path / "none").exists()
    (tmp_path / "empty").mkdir()
    result = run("tables", "ls", "--tables", tmp_path / "empty")
    assert (result.code, result.out, result.err) == (0, "", "no tables\n")
    result = run("tables", "head", "WORK.X", "--tables", tmp_path / "empty")
    assert (result.code, "there is no table 'WORK.X'" in result.err) == (1, True)


def test_the_configuration_says_where(run: Run, built: Built, tmp_path: Path) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(f'data = "{built.folder.parent}"\n')
    assert "WORK.PUPILS" in run("tables", "ls", "--config", path).out
    path.write_text(f'data = "{tmp_path}"\n[tables]\nurl = "{built.folder.as_uri()}"\n')
    assert "WORK.PUPILS" in run("tables", "ls", "--config", path).out
    assert run("tables", "ls", "--tables", "ftp://x/y").code == 1


def test_show(run: Run, shown: Built) -> None:
    out = run("tables", "show", "work.pupils").out
    assert str(shown.folder / "WORK.PUPILS") in out
    assert next(line for line in out.splitlines() if " Born " in line).split()[1:] == [
        "Born",
        "date32[day]",
        "8",
        "DATE9.",
    ]
    assert "Age in years" in out
    assert "Sex is number in some data sets, and text in others" in run("tables", "show", "work.mixed").out
    (told,) = as_records(run("tables", "show", "WORK.PUPILS", "--json").out)
    assert (told["name"], told["rows"], told["label"]) == ("WORK.PUPILS", 6, "Pupils")


def test_head(run: Run, shown: Built) -> None:
    lines = run("tables", "head", "work.pupils", "-n", "2", "--columns", "name,AGE,born,row").out.splitlines()
    assert [line.split() for line in lines] == [
        ["Name", "Age", "Born", "row"],
        ["Åsa", "14", "2012-02-29", "1"],
        ["Bo,", "jr.", ".A", "null", "2"],
    ]
    chosen = ("--columns", "row,age", "-n", "2")
    assert run("tables", "head", "WORK.PUPILS", "--csv", *chosen).out == "row,Age\r\n1,14\r\n2,.A\r\n"
    assert as_records(run("tables", "head", "WORK.PUPILS", "--json", *chosen).out) == [
        {"row": 1, "Age": 14},
        {"row": 2, "Age": ".A"},
    ]
    assert len(run("tables", "head", "WORK.PUPILS").out.splitlines()) == 7
    refused = run("tables", "head", "WORK.PUPILS", "--columns", "nope")
    assert (refused.code, refused.err) == (1, "error: columns: unknown variable nope\n")


def test_a_sender_does_not_write_on_the_terminal(run: Run, shown: Built) -> None:
    out = run("tables", "head", 'WORK.ODD "NAME"', "--columns", "T").out
    assert out.splitlines()[1].rstrip() == "\ufffd[2Jred [bold]x"


def test_nor_do_names_and_labels_of_a_sender(run: Run, tmp_path: Path) -> None:
    built, bell = Built(tmp_path), "\x1b[2J\x9b\x07"
    said = field("T" + bell, pa.string(), label="[red]" + bell, format=bell)
    built.append(pa.table([["x"]], schema=pa.schema([said])), member="X" + bell)
    place = ("--tables", built.folder)
    for command in ("ls", "show", "head", "compact", "vacuum"):
        name = () if command == "ls" else built.tables.names()
        result = run("tables", command, *name, *place)
        assert result.code == 0
        assert not set(bell.replace("[2J", "")) & set(result.out + result.err)
    for query in (f"SELECT 'x{bell}'::INT", f"FROM nope{bell}", f'SELECT 1 AS "{bell}"'):
        result = run("tables", "sql", query, *place)
        assert "\ufffd" in result.out + result.err
        assert not set(bell.replace("[2J", "")) & set(result.out + result.err)


def test_a_library_is_missing(run: Run, shown: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    result = run("tables", "sql", "SELECT 1")
    assert (result.code, result.out) == (1, "")
    assert "SQL needs the library 'duckdb'\npip install 'deltalake<2,>=1.6' 'duckdb<3,>=2'" in result.err
    without_deltalake(monkeypatch)
    result = run("tables", "ls")
    assert (result.code, "pip install 'deltalake<2,>=1.6'" in result.err) == (1, True)


# --- SQL ----------------------------------------------------------------------------------------------------------


def test_sql_finds_tables_by_any_of_their_names(run: Run, shown: Built) -> None:
    for name in ("work.pupils", "WORK.PUPILS", '"WORK.PUPILS"', '"work.pupils"', 'work."PUPILS"'):
        assert as_records(run("tables", "sql", f"SELECT count(*) AS n FROM {name}", "--json").out) == [{"n": 6}]
    assert as_records(run("tables", "sql", 'FROM work."odd ""name""" SELECT row', "--json").out) == [{"row": 1}]
    query = "SELECT p.Name, v.Age FROM work.pupils p JOIN clinic.visits v ON v.row = p.row WHERE v.row = 1"
    assert as_records(run("tables", "sql", query, "--json").out) == [{"Name": "Åsa", "Age": 14}] * 2
    names = [each["name"] for each in as_records(run("tables", "sql", "SHOW TABLES", "--json").out)]
    assert names == shown.tables.names()
    columns = as_records(run("tables", "sql", "DESCRIBE clinic.visits", "--json").out)
    types = {each["column_name"]: each["column_type"] for each in columns}
    assert (types["Clock"], types["Stay"], types["Seen"]) == ("TIME", "INTERVAL", "DATE")
    assert types["received_at"] == "TIMESTAMP WITH TIME ZONE"


def test_sql_has_the_values(run: Run, shown: Built) -> None:
    query = "SELECT Seen, Stamp, Clock, Stay, Age, Age__missing FROM clinic.visits ORDER BY row LIMIT 2"
    assert as_records(run("tables", "sql", query, "--json").out) == [
        {
            "Seen": "1959-12-31",
            "Stamp": "2026-11-21T08:30:00",
            "Clock": "00:00:00",
            "Stay": "30:00:01.5",
            "Age": 14,
            "Age__missing": None,
        },
        {
            "Seen": None,
            "Stamp": "1960-01-01T00:00:00.5",
            "Clock": "23:59:59.999999",
            "Stay": "-00:00:45",
            "Age": None,
            "Age__missing": ".A",
        },
    ]
    where = "Clock > TIME '12:00' AND Stay < INTERVAL 0 SECOND AND received_at >= '2026-11-21 08:00'"
    assert as_records(run("tables", "sql", f"SELECT row FROM clinic.visits WHERE {where}", "--json").out) == [
        {"row": 2}
    ]


def test_sql_tells_every_type(run: Run, shown: Built) -> None:
    query = """SELECT 1::HUGEINT a, 1.50::DECIMAL(9, 2) b, true c, [1, 2] d, {'x': DATE '2026-11-21'} e, 'ab'::BLOB f,
        INTERVAL 50 HOURS g, INTERVAL '2 months 1 second' h, NULL i, MAP {'k': 1} j, 'z'::ENUM('z') k"""
    (row,) = as_records(run("tables", "sql", query, "--json").out)
    assert row == {
        "a": 1,
        "b": 1.5,
        "c": True,
        "d": "[1,2]",
        "e": '{"x":"2026-11-21"}',
        "f": "6162",
        "g": "50:00:00",
        "h": "2 months 00:00:01",
        "i": None,
        "j": '[["k",1]]',
        "k": "z",
    }


def test_sql_sums_up_quality(run: Run, shown: Built) -> None:
    query = "SELECT source, messages, missing_ranges FROM quality"
    assert as_records(run("tables", "sql", query, "--json").out) == [
        {"source": "orders", "messages": 10, "missing_ranges": 0}
    ]


def test_sql_finds_our_tables_whatever_senders_name_theirs(run: Run, tmp_path: Path) -> None:
    built = Built(tmp_path)
    built.append(pupils(), library="main", member="quality")
    built.append(pupils(), library="main", member="work.pupils")
    built.append(pupils())
    built.quality([Increment("orders", hour_of(RECEIVED), messages=7)])
    place = ("--tables", built.folder, "--json")
    assert [row["messages"] for row in as_records(run("tables", "sql", "FROM quality", *place).out)] == [7]
    for name in ('"main.quality"', "work.pupils", '"WORK.PUPILS"', '"MAIN.WORK.PUPILS"'):
        query = f"SELECT count(Name) AS n FROM {name} JOIN quality ON true"
        assert as_records(run("tables", "sql", query, *place).out) == [{"n": 3}]


@pytest.mark.parametrize("library", ["main", "temp", "system", "memory", "pg_catalog", "information_schema"])
def test_sql_lists_tables_whatever_senders_name_theirs(run: Run, tmp_path: Path, library: str) -> None:
    built = Built(tmp_path)
    members = ("duckdb_tables", "duckdb_views", "duckdb_columns", "tables", "columns", "sqlite_master", "pg_class")
    for member in members:
        built.append(pupils(), library=library, member=member)
    place = ("--tables", built.folder, "--json")
    shown = [str(row["name"]).casefold() for row in as_records(run("tables", "sql", "SHOW TABLES", *place).out)]
    assert sorted(shown) == sorted(f"{library}.{member}" for member in members)
    for query in ("FROM duckdb_views()", "FROM information_schema.tables", f'FROM "{library}.duckdb_tables"'):
        assert run("tables", "sql", f"SELECT count(*) AS n {query}", *place).code == 0


def test_sql_knows_libraries_and_members_with_dots(run: Run, tmp_path: Path) -> None:
    built = Built(tmp_path)
    built.append(pupils(), library="a.b", member="c")
    built.append(pupils(), library="it's.x", member="c.d'.e")
    place = ("--tables", built.folder, "--json")
    for name in ('"A.B".c', """"'A.B'.C\"""", '"it\'s.x"."c.d\'.e"'):
        query = f"SELECT count(Name) AS n FROM {name}"
        assert as_records(run("tables", "sql", query, *place).out) == [{"n": 3}], name


def test_sql_for_people(run: Run, shown: Built) -> None:
    result = run("tables", "sql", "SELECT range AS n FROM range(5000)", "-n", "3")
    assert (result.out.split(), result.err) == (["n", "0", "1", "2"], "only the first 3 rows are shown\n")
    assert run("tables", "sql", "SELECT range AS n FROM range(3)", "-n", "3").err == ""
    plan = run("tables", "sql", "EXPLAIN SELECT Name FROM work.pupils WHERE row = 2").out
    assert "PYTHON_ARROW_SCAN" in plan
    assert "Projections: Name" in plan


def test_sql_into_files(run: Run, shown: Built, in_folder: Path) -> None:
    query = "SELECT Name, Born, Age FROM work.pupils ORDER BY attachment, row"
    written = ["x.arrow", "x.arrows", "x.csv", "x.json", "x.ndjson", "x.parquet"]
    for name in written:
        assert run("tables", "sql", query, "-o", name).code == 0
    assert sorted(path.name for path in in_folder.iterdir()) == written
    expected = pupils().select(["Name", "Born", "Age"]).to_pydict()
    expected = {name: values * 2 for name, values in expected.items()}
    assert pq.read_table("x.parquet").to_pydict() == expected
    assert pa.ipc.open_file("x.arrow").read_all().to_pydict() == expected
    assert pa.ipc.open_stream(Path("x.arrows").read_bytes()).read_all().to_pydict() == expected
    assert [row["Name"] for row in json.loads(Path("x.json").read_text())] == expected["Name"]
    assert pa.csv.read_csv("x.csv")["Age"].to_pylist() == expected["Age"]
    refused = run("tables", "sql", query, "-o", "x.xpt")
    assert (refused.code, "known formats: parquet, arrow, arrow-file, csv, json, ndjson" in refused.err) == (1, True)
    assert run("tables", "sql", query, "-o", "nowhere/x.csv").code == 1
    assert run("tables", "sql", query, "-o", "x.csv", "--json").code == 1


def test_sql_that_fails_in_the_middle_leaves_no_file(run: Run, shown: Built, in_folder: Path) -> None:
    query = "SELECT CASE WHEN range = 900000 THEN error('stop') ELSE range::VARCHAR END AS n FROM range(1000000)"
    result = run("tables", "sql", query, "-o", "x.csv")
    assert (result.code, "stop" in result.err) == (1, True)
    assert list(in_folder.iterdir()) == []


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("COPY (SELECT 1) TO '{}'", "COPY is not a query"),
        ("EXPLAIN ANALYZE COPY (SELECT 1) TO '{}'", "COPY is not a query"),
        ("EXPLAIN (ANALYZE, FORMAT json) CREATE TABLE x AS SELECT 1", "CREATE is not a query"),
        ("ATTACH '{}'", "ATTACH is not a query"),
        ("INSTALL httpfs", "INSTALL is not a query"),
        ("LOAD httpfs", "LOAD is not a query"),
        ("PRAGMA database_list", "PRAGMA is not a query"),
        ("SET enable_external_access = true", "SET is not a query"),
        ("RESET lock_configuration", "RESET is not a query"),
        ("CALL pragma_version()", "CALL is not a query"),
        ("EXPORT DATABASE '{}'", "EXPORT is not a query"),
        ("INSERT INTO work.pupils VALUES (1)", "INSERT is not a query"),
        ("DROP VIEW work.pupils", "DROP is not a query"),
        ("/* SELECT */ CREATE TABLE x AS SELECT 1", "CREATE is not a query"),
        ("SELECT 1; COPY (SELECT 1) TO '{}'", "write exactly one query; found 2"),
        ("", "write exactly one query; found none"),
        ("SELEC 1", "syntax error"),
        ("SELECT * FROM read_csv('/etc/passwd')", "Cannot access file"),
        ("SELECT * FROM read_text('/etc/passwd')", "Cannot access file"),
        ("SELECT * FROM glob('/etc/*')", "Cannot access file"),
        ("SELECT * FROM '/etc/passwd'", "does not exist"),
        ("SUMMARIZE FROM read_csv('/etc/passwd')", "Cannot access file"),
        ("DESCRIBE SELECT * FROM read_blob('/etc/passwd')", "Cannot access file"),
        ("SELECT * FROM query('COPY (SELECT 1) TO ''{}''')", "SELECT"),
        ("WITH x AS (COPY (SELECT 1) TO '{}') FROM x", "Cannot access file"),
        ("WITH x AS (DELETE FROM work.pupils RETURNING row) FROM x", "base table"),
        ("SELECT * FROM enable_logging(storage_path = '{}')", "locked"),
        ("SELECT * FROM enable_profiling(save_location = '{}')", "locked"),
        ("SELECT * FROM read_parquet('http://127.0.0.1:9/x')", "Cannot access file"),
        ("SELECT * FROM work.nope", "does not exist"),
        ("SELECT * FROM built", "does not exist"),
    ],
)
def test_sql_reads_tables_and_nothing_else(run: Run, shown: Built, in_folder: Path, query: str, why: str) -> None:
    built = pa.table({"a": [1]})  # which DuckDB finds by its name, if it may
    result = run("tables", "sql", query.format(in_folder / "out"))
    assert (result.code, result.out) == (1, "")
    assert why in result.err
    assert "Traceback" not in result.err
    assert list(in_folder.iterdir()) == []
    assert built.num_rows == 1


def test_sql_is_locked(shown: Built) -> None:
    """Also for what reads settings by functions, and for all that follows in the same connection."""
    query = "SELECT name, value FROM duckdb_settings() WHERE name IN ({})"
    expected = {
        "enable_external_access": "false",
        "lock_configuration": "true",
        "autoload_known_extensions": "false",
        "autoinstall_known_extensions": "false",
        "allow_community_extensions": "false",
        "allow_unsigned_extensions": "false",
    }
    with answered(shown.tables, query.format(", ".join(f"'{name}'" for name in expected)), "1GB") as answer:
        found = {
            name: value for batch in answer.batches for name, value in zip(*batch.to_pydict().values(), strict=True)
        }
    assert found == expected


def test_sql_keeps_to_its_memory(run: Run, shown: Built, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spilling = "SELECT count(*) AS n FROM (SELECT DISTINCT hash(range)::VARCHAR AS h, range FROM range(1000000))"
    assert as_records(run("tables", "sql", spilling, "--memory", "50MB", "--json").out) == [{"n": 1_000_000}]
    too_much = run("tables", "sql", "SELECT length(list(range)::VARCHAR) FROM range(20000000)", "--memory", "50MB")
    assert (too_much.code, "give it more with --memory" in too_much.err) == (1, True)
    assert "SET " not in too_much.err
    assert run("tables", "sql", "SELECT 1", "--memory", "much").code == 1
    assert list(tmp_path.iterdir()) == []


def test_sql_opens_what_it_needs(shown: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    real = shown.tables.open

    def opening(name: str, *given: Any) -> Any:
        opened.append(name)
        return real(name, *given)

    monkeypatch.setattr(shown.tables, "open", opening)
    with answered(shown.tables, "FROM work.pupils", "1GB") as answer:
        assert sum(batch.num_rows for batch in answer.batches) == 6
    assert opened == ["WORK.PUPILS"]
    with pytest.raises(Failure), answered(shown.tables, "FROM nothing", "1GB"):
        pass
    assert opened == ["WORK.PUPILS"]


# --- keeping them in order ----------------------------------------------------------------------------------------


def test_compact_and_vacuum(run: Run, tmp_path: Path) -> None:
    built = Built(tmp_path)
    for _ in range(3):
        built.append(pupils())
    files = set((built.folder / "WORK.PUPILS").glob("*.parquet"))
    assert len(files) == 3
    where = ("--tables", built.folder)
    assert run("tables", "compact", *where).err == "WORK.PUPILS: 3 files replaced\n"
    assert built.tables.describe("WORK.PUPILS").files == 1
    assert run("tables", "vacuum", "work.pupils", *where).err == "WORK.PUPILS: 0 files removed\n"
    assert run("tables", "vacuum", "--older-than", "8d", *where).err == "WORK.PUPILS: 0 files removed\n"
    short = ("tables", "vacuum", "--older-than", "0s")
    assert run(*short, "--no-retention-check", *where).err == "WORK.PUPILS: 3 files removed\n"
    assert len(run("tables", "head", "WORK.PUPILS", "--csv", "-n", "20", *where).out.splitlines()) == 10


def test_vacuum_leaves_what_readers_and_batches_need(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = Built(tmp_path)
    for _ in range(3):
        built.append(pupils())
    older = built.tables.open("WORK.PUPILS").dataset
    built.tables.compact("WORK.PUPILS")
    where = ("--tables", built.folder)
    for given in ("0s", "1h", "6d23h"):
        result = run("tables", "vacuum", "--older-than", given, *where)
        assert (result.code, "files removed" in result.err) == (1, False)
        assert f"--older-than {given} is shorter than tables.keep_replaced, 168h" in " ".join(result.err.split())
        assert "--no-retention-check" in result.err
    assert older.to_table().num_rows == 9
    monkeypatch.setenv("ATTACHMENT_GATEWAY_TABLES__KEEP_REPLACED", "36h")
    assert "keep_replaced, 36h" in " ".join(run("tables", "vacuum", "--older-than", "1d", *where).err.split())
    assert run("tables", "vacuum", "--older-than", "2d", *where).err == "WORK.PUPILS: 0 files removed\n"


def test_retain(run: Run, tmp_path: Path) -> None:
    built = Built(tmp_path)
    for _ in range(3):
        built.append(pupils())
    where = ("--tables", built.folder)
    day = datetime.fromtimestamp(RECEIVED / 1e6, UTC) + timedelta(days=2)
    result = run("tables", "retain", "--received-from", day.strftime("%Y-%m-%d"), *where)
    assert result.err == "WORK.PUPILS: 3 rows removed\n"
    assert built.tables.describe("WORK.PUPILS").rows == 6
    years = (date.today().year - 2020) * 366
    assert run("tables", "retain", "work.pupils", "--keep", f"{years}d", *where).err == "WORK.PUPILS: 0 rows removed\n"
    assert run("tables", "retain", "work.pupils", "--keep", f"{years}d12h", *where).err.endswith(": 0 rows removed\n")
    for wrong in (["--keep", "9x"], ["--keep", "99999999d"], [], ["--keep", "1d", "--received-from", "2026-01-01"]):
        assert run("tables", "retain", *wrong, *where).code == 1
    for seconds in ("90", "90.5", "1e3", ""):
        assert f"--keep '{seconds}' has no unit" in run("tables", "retain", "--keep", seconds, *where).err
    assert run("tables", "retain", "nope", "--keep", "1d", *where).code == 1
    assert built.tables.describe("WORK.PUPILS").rows == 6

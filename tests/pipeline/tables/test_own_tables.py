from datetime import UTC, datetime
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from app.model.attachment import AttachmentKind
from app.model.evidence import Choice, Ground, Question
from app.model.records import AttachmentRecord, Finished
from app.pipeline.commit.tables import Increment, file_rows, hour_of, quality_rows, summed
from app.tables.quality import HOUR


def test_files_say_what_is_known_of_them() -> None:
    record = AttachmentRecord(
        "a1",
        "here",
        bytes(16),
        message_id="m1",
        kind=AttachmentKind.TEXT_FILE,
        qualifier_1="FILENAME",
        qualifier_2="../report.txt",
        description="A report",
        first_received_at=1_000_000,
    )
    finished = Finished(
        "a1",
        5,
        "ab" * 32,
        "text/plain",
        "store",
        2_000_000,
        object_name="attachments/a1",
        warnings=("Größe \ud800",),
        evidence=(Choice(Question.LAST_LINE_END, "line-end", Ground.PREFERENCE, ("no-line-end",)),),
    )
    assert file_rows([(record, finished)]).to_pylist() == [
        {
            "message": "m1",
            "attachment": "a1",
            "source": "here",
            "received_at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
            "finished_at": datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC),
            "kind": "text-file",
            "name": "../report.txt",
            "qualifier_1": "FILENAME",
            "description": "A report",
            "size": 5,
            "sha256": "ab" * 32,
            "content_type": "text/plain",
            "warnings_count": 1,
            "warnings": '["Gr\\u00f6\\u00dfe \\ud800"]',
            "evidence": '[{"question": "last-line-end", "reading": "line-end", "ground": "preference", '
            '"others": ["no-line-end"]}]',
        }
    ]
    assert file_rows([]).schema == file_rows([(record, finished)]).schema


def test_hours_begin_on_the_hour() -> None:
    assert [hour_of(time) for time in (0, HOUR - 1, HOUR, HOUR + 1)] == [0, 0, HOUR, HOUR]


COUNTS = st.integers(-5, 1000)
MICROS = st.integers(0, 10**12).map(lambda micros: micros / 1_000_000)
COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "source": st.sampled_from(["one", "other"]),
    "hour": st.sampled_from([0, HOUR, 400_000 * HOUR]),
    "seconds_to_complete": MICROS,
    "longest_seconds": MICROS,
}
INCREMENTS = st.fixed_dictionaries({name: COLUMNS.get(name, COUNTS) for name in Increment._fields}).map(
    lambda values: Increment(**values)
)
SUMS = [name for name in Increment._fields if name not in COLUMNS]


@settings(deadline=None)
@given(st.lists(INCREMENTS, max_size=20), st.randoms())
def test_increments_add_up_however_they_were_appended(increments: list[Increment], random: Random) -> None:
    found = quality_rows(increments)
    shuffled = random.sample(increments, len(increments))
    cut = random.randint(0, len(increments))
    batches = [*quality_rows(shuffled[:cut]).to_batches(), *quality_rows(shuffled[cut:]).to_batches()]
    assert summed(batches) == found
    assert summed([]) == found.slice(0, 0)
    rows = {(row["source"], row["hour"]): row for row in found.to_pylist()}
    assert list(rows) == sorted(rows)
    for (source, hour), row in rows.items():
        at = pa.scalar(hour, found.schema.field("hour").type).value
        own = [each for each in increments if (each.source, each.hour) == (source, at)]
        assert [row[name] for name in SUMS] == [sum(getattr(each, name) for each in own) for name in SUMS]
        assert row["longest_seconds"] == max(each.longest_seconds for each in own)
        assert abs(row["seconds_to_complete"] - sum(each.seconds_to_complete for each in own)) < 1e-5
    assert len(rows) == len({(each.source, each.hour) for each in increments})

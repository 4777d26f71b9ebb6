"""What a batch came to is committed once, and by one driver at a time."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.model.attachment import AttachmentState
from app.model.errors import GatewayError
from app.model.records import AttachmentRecord, MessageRecord
from app.pipeline.commit.commit import Committer
from app.pipeline.commit.packages import Findings
from app.pipeline.finish.finish_outcomes import Result
from app.pipeline.job.job import Job, open_run
from app.service.context import ServiceContext
from app.tables.quality import Increment
from app.testing.gateway_stages import service_context
from tests.support.local_steps import findings_of


@pytest.fixture
def context(tmp_path: Path) -> Iterator[ServiceContext]:
    with service_context(tmp_path) as context:
        yield context


def job(context: ServiceContext) -> Job:
    return Job.of(context.settings, str(context.settings.data / "journal"), in_place=False, tables=False)


def committer(context: ServiceContext) -> Committer:
    return Committer(open_run(job(context), context.catalog, context.clock), lambda _tasks: [])


def found(context: ServiceContext, *results: Result) -> Findings:
    return findings_of(results, job(context))


def received(reached: int, identifier: str) -> Result:
    return Result(reached, Increment("s", 0), AttachmentRecord(identifier, "s", identifier.encode()))


def test_batches_follow_each_other(context: ServiceContext) -> None:
    ours = committer(context)
    assert ours.commit(found(context)) is None
    for reached in (5, 9):
        committed = ours.commit(found(context, received(reached, f"a{reached}")))
        assert committed is not None
        assert (committed.reached, committed.was_known) == (reached, False)
        assert context.catalog.progress() == ours.progress == reached
    again = committer(context).commit(found(context, received(9, "a9")))
    assert again is not None
    assert again.was_known


@pytest.mark.parametrize("moment", ["complete_messages", "end"])
def test_a_message_without_attachments_is_completed_with_its_batch(
    context: ServiceContext, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """A driver that is killed after the batch leaves no event out, and the next one repeats none."""
    message = MessageRecord("m1", "s", b"h", b"a", 8, bytes(24), (), 1, 3, application_body=b"", complete_at=3)
    batch = found(context, Result(5, Increment("s", 0), messages=(message,)))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as failing:
        failing.setattr(f"app.pipeline.commit.commit.{moment}", killed)
        with pytest.raises(KeyboardInterrupt):
            committer(context).commit(batch)
    again = committer(context).commit(batch)
    assert again is not None
    assert again.was_known
    kept = context.catalog.message("m1")
    assert kept is not None
    assert kept.complete_at == 3
    told = [(event.type, event.subject) for event in context.catalog.events_after(0, 9)]
    assert told == [("message.complete", "m1")]


def test_two_drivers_are_one_too_many(context: ServiceContext) -> None:
    ours, theirs = committer(context), committer(context)
    theirs.commit(found(context, received(5, "a5")))
    with pytest.raises(GatewayError, match="another process commits"):
        ours.commit(found(context, received(7, "a7")))
    assert context.catalog.progress() == 5
    assert context.catalog.attachment("a7") is None
    kept = context.catalog.attachment("a5")
    assert kept is not None
    assert kept.state is AttachmentState.RECEIVING

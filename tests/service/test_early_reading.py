"""A binary file whose parts come in order is read while they come, and has the content that was sent."""

from pathlib import Path
from random import Random

import pytest

from app.service.content.stored_content import PIECE
from app.testing.gateway_stages import ManualClock, service_context
from tests.support.host import SOURCE, Host
from tests.support.sas_client import Program, binary_file, message

KIB = 1 << 10
APART = [(32 * KIB, 3_000_000), (PIECE // 3, 4 * PIECE), (3 * PIECE, 7 * PIECE)]
"""Sizes of bodies and of files: many bodies are hashed together, a few, and each by itself."""


@pytest.mark.parametrize(("body", "size"), APART)
def test_a_file_is_finished_by_what_was_read_as_it_came(tmp_path: Path, body: int, size: int) -> None:
    """Two files come at once, an empty one between them. Nothing is left to finishing."""
    clock = ManualClock()
    with service_context(tmp_path, clock) as context:
        host = Host(context, clock)
        host.program = Program(Random(body), body_limit=body)
        sizes = (size, 0, size + 1)
        sent = [binary_file(host.program, f"{each}.bin", host.program.random.randbytes(each)) for each in sizes]
        streams = [message(host.program, [attached]) for attached in sent]
        turns = (each for row in range(max(map(len, streams))) for each in (some[row : row + 1] for some in streams))
        messages = [one._replace(source=SOURCE, received_at=clock.now()) for some in turns for one in some]
        for at in range(0, len(messages), 100):
            context.journal.append(messages[at : at + 100])
        host.assembler.recover()
        assert host.complete == {}
        for attached in sent:
            host.assert_whole(attached)
            assert host.record(attached).sha256 == attached.sha256

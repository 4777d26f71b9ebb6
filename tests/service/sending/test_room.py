"""The space that uploads may use."""

import pytest

from app.model.errors import StoreFull
from app.service.sending.upload_space import UploadSpace


def test_uploads_that_run_keep_what_they_announced_from_others() -> None:
    free = 1000
    room = UploadSpace(lambda: free, 50)
    with room.reserved(600) as first:
        with (
            pytest.raises(StoreFull, match="are free, 600 of them reserved for running uploads"),
            room.reserved(301),
        ):
            pass
        with room.reserved(300) as second:
            with pytest.raises(StoreFull):
                room.check(1)
            free -= 300
            second.written(300)
            second.written(300)
            room.check(0)
        free -= 600
        first.written(600)
        room.check(0)
        with pytest.raises(StoreFull):
            first.grow_to(1)
    assert free == 100


def test_an_upload_that_announces_nothing_needs_room_as_it_grows() -> None:
    room = UploadSpace(lambda: 1000, 50)
    with room.reserved(0) as reservation:
        reservation.grow_to(500)
        with pytest.raises(StoreFull):
            reservation.grow_to(901)
        room.check(400)
    room.check(900)


def test_a_disk_that_fills_up_ends_uploads_that_announced_their_size() -> None:
    free = 1000
    room = UploadSpace(lambda: free, 50)
    with room.reserved(800) as reservation:
        reservation.grow_to(100)
        free = 500
        with pytest.raises(StoreFull):
            reservation.grow_to(100)

"""The uploads of a caller, for whom the uploads of others do not exist."""

import re
from collections.abc import Sequence

from starlette.concurrency import run_in_threadpool

from app.ports import BadCursor, Page
from app.service.gateway import Gateway
from app.service.sending.upload_parts import StoredPart
from app.service.uploads import UnknownUpload, Upload
from app.web.dependencies.caller import Caller
from app.web.dependencies.identifiers import unknown
from app.web.dependencies.request_gateway import Paging
from app.web.problems import Problem, pointer_to
from app.web.resources.uploads.upload_checksums import check_whole

_CURSOR = re.compile(r"(\d{1,18})\.([0-9a-f]{32})")


def owner_of(caller: Caller) -> str:
    """Return the owner of what a caller uploads: itself, whatever its name is used for elsewhere."""
    principal = caller.principal
    return f"{principal.kind}:{principal.id or principal.name}"


def page_of(uploads: Sequence[Upload], paging: Paging) -> Page[Upload]:
    """Return a page of uploads, which are sorted newest first. Raises BadCursor."""
    if paging.cursor is not None:
        match = _CURSOR.fullmatch(paging.cursor)
        if match is None:
            raise BadCursor(paging.cursor)
        before = int(match[1]), match[2]
        uploads = [each for each in uploads if (each.record.created_at, each.record.id) < before]
    items = list(uploads[: paging.limit])
    last = items[-1].record if len(uploads) > paging.limit else None
    return Page(items, None if last is None else f"{last.created_at}.{last.id}")


async def known_upload(gateway: Gateway, upload_id: str, caller: Caller) -> Upload:
    """Return an upload of the caller. Raises Problem when it has none with this identifier."""
    if not gateway.uploads.is_open:
        await run_in_threadpool(gateway.uploads.open)
    try:
        upload = _found(gateway, upload_id, caller)
    except UnknownUpload:
        raise unknown("upload", upload_id) from None
    caller.trail.details = {"upload": upload.record.id}
    return upload


class CallersUploads:
    """The uploads of a caller, whose content becomes parts of a message: objects `{folder}/upload-{n}`."""

    def __init__(self, gateway: Gateway, caller: Caller, folder: str) -> None:
        self._gateway, self._caller, self._folder = gateway, caller, folder
        self._copied = self._bytes = 0

    def require(self, part: str, upload_id: str) -> None:
        """Check that the caller has this upload, that it is complete, and that a message may have so many bytes with
        it. Raises Problem."""
        self._bytes += self._complete(part, upload_id).offset
        most = self._gateway.settings.limits.upload_bytes
        if self._bytes > most:
            raise Problem("too-large", f"the uploads of a message may have {most} bytes together", limit=most)

    def take(self, part: str, upload_id: str) -> StoredPart:
        """Copy its content to the folder, and return it as this part. Raises Problem."""
        upload = self._complete(part, upload_id)
        self._gateway.room.check(upload.offset)
        name, self._copied = f"{self._folder}/upload-{self._copied}", self._copied + 1
        try:
            # A gateway that was killed may have all bytes of an upload without having checked them.
            check_whole(self._gateway.uploads, upload)
            return self._gateway.uploads.copy(upload, part, name)
        except UnknownUpload as error:
            raise _invalid(part, str(error)) from None

    def _complete(self, part: str, upload_id: str) -> Upload:
        try:
            upload = _found(self._gateway, upload_id, self._caller)
        except UnknownUpload as error:
            raise _invalid(part, str(error)) from None
        if not upload.is_complete:
            of = upload.record.length
            raise _invalid(part, f"the upload is not complete: {upload.offset} of {of or 'unknown'} bytes are here")
        return upload


def _found(gateway: Gateway, upload_id: str, caller: Caller) -> Upload:
    """Return an upload of the caller. One of another counts as a refused request. Raises UnknownUpload."""
    owner = owner_of(caller)
    try:
        return gateway.uploads.find(upload_id, owner)
    except UnknownUpload:
        if gateway.uploads.belongs_to_another(upload_id, owner):
            caller.trail.refused = "the upload belongs to another caller"
        raise


def _invalid(part: str, why: str) -> Problem:
    return Problem("invalid", why, errors=[{"pointer": pointer_to(["uploads", part]), "detail": why}])

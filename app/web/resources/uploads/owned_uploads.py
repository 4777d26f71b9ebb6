"""The uploads of a caller, for whom the uploads of others do not exist."""

from collections.abc import Mapping

from starlette.concurrency import run_in_threadpool

from app.model.uploads import UnknownUpload, UploadSuperseded
from app.service.gateway import Gateway
from app.service.sending.upload_parts import StoredPart
from app.service.uploads import Upload
from app.web.dependencies.caller import Caller
from app.web.dependencies.known_resources import unknown
from app.web.problems import Problem, invalid_content, pointer_to
from app.web.resources.uploads.upload_receiving import check_whole


def owner_of(caller: Caller) -> str:
    """Return the owner of what a caller uploads: itself, whatever its name is used for elsewhere."""
    principal = caller.principal
    return f"{principal.kind}:{principal.id or principal.name}"


async def known_upload(gateway: Gateway, upload_id: str, caller: Caller) -> Upload:
    """Return an upload of the caller. Raises Problem when it has none with this identifier."""
    try:
        upload = await run_in_threadpool(_found, gateway, upload_id, caller)
    except UnknownUpload:
        raise unknown("upload", upload_id) from None
    caller.trail.details = {"upload": upload.record.id}
    return upload


class CallersUploads:
    """The uploads of a caller, whose content becomes parts of a message: objects `{folder}/upload-{n}`.

    `trace_parent` is the `traceparent` of the first one that has any.
    """

    def __init__(self, gateway: Gateway, caller: Caller, folder: str) -> None:
        self._gateway, self._caller, self._folder = gateway, caller, folder
        self.trace_parent: str | None = None

    def take(self, chosen: Mapping[str, str]) -> list[StoredPart]:
        """Copy the content of uploads, by the names of their parts, to the folder, and return it as these parts.

        Before that all are checked: whether the caller has them, whether they are complete, and whether a message may
        have so many bytes. Blocks. Raises Problem.
        """
        uploads: dict[str, Upload] = {}
        for part, upload_id in chosen.items():
            try:
                upload = uploads[part] = _found(self._gateway, upload_id, self._caller)
            except UnknownUpload as error:
                raise _invalid(part, str(error)) from None
            if not upload.is_complete:
                of = upload.record.length
                raise _invalid(part, f"the upload is not complete: {upload.offset} of {of or 'unknown'} bytes are here")
        most = self._gateway.settings.limits.upload_bytes
        if sum(each.offset for each in uploads.values()) > most:
            raise Problem("too-large", f"the uploads of a message may have {most} bytes together", limit=most)
        taken = []
        for number, (part, upload) in enumerate(uploads.items()):
            self._gateway.room.check(upload.offset)
            self.trace_parent = self.trace_parent or upload.record.trace_parent
            try:
                # A gateway that was killed may have all bytes of an upload without having checked them.
                check_whole(self._gateway.uploads, upload)
                taken.append(self._gateway.uploads.copy(upload, part, f"{self._folder}/upload-{number}"))
            except (UnknownUpload, UploadSuperseded) as error:
                raise _invalid(part, str(error)) from None
        return taken


def _found(gateway: Gateway, upload_id: str, caller: Caller) -> Upload:
    """Return an upload of the caller. One of another counts as a refused request. Raises UnknownUpload."""
    owner = owner_of(caller)
    try:
        return gateway.uploads.find(upload_id, owner)
    except UnknownUpload as error:
        if error.is_of_another:
            caller.trail.refused = "the upload belongs to another caller"
        raise


def _invalid(part: str, why: str) -> Problem:
    return invalid_content(pointer_to(["uploads", part]), why)

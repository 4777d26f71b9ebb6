"""Attachments: listing, progress and content."""

from typing import Annotated

from fastapi import Query, Response

from app.model.attachment import AttachmentState
from app.model.records import AttachmentRecord
from app.ports import NEWEST_FIRST, AttachmentFilter, Sort
from app.service.gateway import Gateway
from app.web.dependencies.caller import Caller, CallerDep, resource_router
from app.web.dependencies.known_resources import Identifier, known_attachment, whole
from app.web.dependencies.request_gateway import GatewayDep, PagingDep
from app.web.http.entity_tags import IfMatch, entity_tag, require_match
from app.web.http.parameters import DIGITS, Timestamp, to_microseconds
from app.web.problems import Problem, responses
from app.web.resources.attachments.content import missing_parts
from app.web.resources.attachments.schemas import AttachmentView
from app.web.resources.schemas import KINDS, KindWord, PageView, page_view
from app.web.responses.long_polling import AttachmentWait

router = resource_router(prefix="/attachments", tags=["attachments"])


@router.get("", operation_id="list_attachments", responses=responses("ambiguous"))
def list_attachments(
    response: Response,
    gateway: GatewayDep,
    caller: CallerDep,
    paging: PagingDep,
    state: AttachmentState | None = None,
    kind: KindWord | None = None,
    source: Annotated[str | None, Query(max_length=100)] = None,
    name: Annotated[str | None, Query(max_length=1000, description="part of a name, ignoring case")] = None,
    message: Annotated[
        str | None, Query(max_length=100, description="a message's identifier, or its first digits")
    ] = None,
    received_after: Annotated[Timestamp | None, Query(examples=["2026-11-21T08:00:00Z"])] = None,
    received_before: Annotated[Timestamp | None, Query(examples=["2026-11-22T08:00:00Z"])] = None,
    min_size: Annotated[
        int | None, Query(ge=0, lt=1 << 63, description="bytes of finished content, at least"), DIGITS
    ] = None,
    max_size: Annotated[
        int | None, Query(ge=0, lt=1 << 63, description="bytes of finished content, at most"), DIGITS
    ] = None,
    announced: Annotated[
        bool,
        Query(
            description="false: list instead the messages that wait for their header: parts of an attachment, or an "
            "application message"
        ),
    ] = True,
    warned: Annotated[
        bool | None, Query(description="true: only attachments with warnings; false: only those without")
    ] = None,
    sort: Annotated[Sort, Query(description="`-` means descending; a cursor is valid for one order")] = NEWEST_FIRST,
    count: Annotated[
        bool,
        Query(
            description="add the header `Total-Count`, the number of items on all pages. `4000+` is a part of them: "
            "counting ends after 4,000 rows"
        ),
    ] = False,
) -> PageView[AttachmentView]:
    """List the attachments, including those that are still being received.

    Messages that arrived before their header are listed with `announced=false` only. When the header arrives, the event
    `attachment.identified` says what they are. An application message is not listed any more then: its identifier gives
    the problem `application-message` with a link to its message.
    """
    which = AttachmentFilter(
        state=state,
        kind=KINDS[kind] if kind else None,
        source=source,
        name=name,
        message=None if message is None else whole(gateway, "messages", message, caller),
        received_after=to_microseconds(received_after),
        received_before=to_microseconds(received_before),
        within=caller.sources,
        min_size=min_size,
        max_size=max_size,
        announced=announced,
        warned=warned,
    )
    page = gateway.catalog.attachments(which, paging.cursor, paging.limit, sort)
    if count:
        total = gateway.catalog.count_attachments(which)
        response.headers["Total-Count"] = f"{total.number}{'' if total.is_all else '+'}"
    return page_view(paging, page, lambda record: AttachmentView.of(record, caller.base))


@router.get(
    "/{attachment_id}",
    operation_id="get_attachment",
    dependencies=[AttachmentWait],
    responses=responses("not-found", "ambiguous", "application-message"),
)
def get_attachment(attachment_id: Identifier, gateway: GatewayDep, caller: CallerDep) -> AttachmentView:
    """Return all facts about an attachment; while it is being received, also its missing parts."""
    return _view(gateway, known_attachment(gateway, attachment_id, caller), caller)


def _view(gateway: Gateway, record: AttachmentRecord, caller: Caller) -> AttachmentView:
    request = gateway.catalog.missing_request(record.id)
    view = AttachmentView.of(record, caller.base, missing_parts(gateway, record), request)
    if gateway.receipts.are_made and record.state is AttachmentState.FINISHED:
        view.links["receipt"] = f"{view.links['self']}/receipt"
        view.receipt = "coming" if gateway.receipts.statement(record.id) is None else "made"
    return view


@router.delete(
    "/{attachment_id}",
    operation_id="delete_attachment",
    status_code=204,
    responses=responses("not-found", "ambiguous", "application-message", "precondition-failed"),
)
def delete_attachment(
    attachment_id: Identifier, gateway: GatewayDep, caller: CallerDep, if_match: IfMatch = None
) -> None:
    """Delete an attachment and its content."""
    record = known_attachment(gateway, attachment_id, caller)
    if if_match is not None:
        require_match(entity_tag(_view(gateway, record, caller)), if_match, "the attachment")
    if not gateway.deletion.attachment(record.id):
        raise Problem("not-found", f"the attachment {record.id} has been deleted already")

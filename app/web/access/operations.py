"""Every operation of REST, with the scope that it needs and the action of its entry in the audit log.

`create_app` fails for an operation that is not here.
"""

from collections.abc import Mapping
from typing import NamedTuple

from app.model.principals import Scope

READ_AUDIT = "read-audit"


class Operation(NamedTuple):
    """The scope that an operation needs (None: no credentials), and its action in the audit log (None: no entry).

    `public` is the word in `http.public` that makes it need none. With `any_scope` it needs credentials of any scope.
    """

    scope: Scope | None
    action: str | None = None
    public: str | None = None
    any_scope: bool = False


_OPEN = Operation(None)
_READ = Operation(Scope.READ)
_CONTENT = Operation(Scope.READ, "read-content")
_DELETE = Operation(Scope.DELETE, "delete")
_SEND = Operation(Scope.SEND, "send")
_OPERATE = Operation(Scope.OPERATE)
_REPLAY = Operation(Scope.OPERATE, "replay")

OPERATIONS: Mapping[str, Operation] = {
    "list_attachments": _READ,
    "get_attachment": _READ,
    "delete_attachment": _DELETE,
    "head_attachment_content": _READ,
    "get_attachment_content": _CONTENT,
    "get_attachment_receipt": _READ,
    "get_attachment_parts": _READ,
    "get_attachment_timeline": _READ,
    "list_physical_messages": _READ,
    "get_physical_message": _CONTENT,
    "trace_physical_message": _CONTENT,
    "get_data_set_rows": _CONTENT,
    "get_data_set_schema": _READ,
    "get_data_set_profile": _CONTENT,
    "list_messages": _READ,
    "get_message": _CONTENT,
    "delete_message": _DELETE,
    "get_message_content": _CONTENT,
    "head_message_content": _READ,
    "send_message": _SEND,
    "send_file": _SEND,
    "describe_uploads": Operation(Scope.SEND),
    "create_upload": Operation(Scope.SEND, "upload"),
    "list_uploads": Operation(Scope.SEND),
    "head_upload": Operation(Scope.SEND),
    "get_upload": Operation(Scope.SEND),
    "append_upload": Operation(Scope.SEND),
    "delete_upload": Operation(Scope.SEND, "delete"),
    "list_deliveries": _READ,
    "get_delivery": _READ,
    "get_delivery_receipt": _READ,
    "delete_delivery": _DELETE,
    "cancel_delivery": Operation(Scope.OPERATE, "cancel"),
    "retry_delivery": Operation(Scope.OPERATE, "retry"),
    "get_receipt_log": _READ,
    "get_receipt_log_head": _READ,
    "list_quarantine": _READ,
    "list_quarantine_groups": _READ,
    "get_quarantine_entry": _CONTENT,
    "get_quarantined_body": _CONTENT,
    "trace_quarantined": _CONTENT,
    "replay_quarantined": _REPLAY,
    "replay_many_quarantined": _REPLAY,
    "dismiss_many_quarantined": Operation(Scope.OPERATE, "dismiss"),
    "dismiss_quarantined": Operation(Scope.OPERATE, "dismiss"),
    "list_tables": _READ,
    "get_table": _READ,
    "head_table_rows": _READ,
    "get_table_rows": _CONTENT,
    "query_tables": _CONTENT,
    "get_pipeline": _READ,
    "list_pipeline_runs": _READ,
    "stream_events": _READ,
    "list_webhooks": _OPERATE,
    "get_webhook": _OPERATE,
    "enable_webhook": Operation(Scope.OPERATE, "enable"),
    "replay_webhook": _REPLAY,
    "list_dead_letters": _OPERATE,
    "replay_dead_letters": _REPLAY,
    "delete_dead_letters": Operation(Scope.OPERATE, "delete"),
    "list_receivers": Operation(Scope.ADMIN),
    "leave_receiver": Operation(Scope.ADMIN, "leave"),
    "forget_receiver": Operation(Scope.ADMIN, "forget"),
    "get_summary": _READ,
    "trace": _READ,
    "get_caller": Operation(None, any_scope=True),
    "list_tools": Operation(None, any_scope=True),
    "get_sign_in": _OPEN,
    "sign_in": Operation(None, "sign-in"),
    "create_link": Operation(Scope.READ, "create-link"),
    "list_audit": Operation(Scope.ADMIN, READ_AUDIT),
    "get_iceberg_config": _READ,
    "list_iceberg_namespaces": _READ,
    "get_iceberg_namespace": _READ,
    "head_iceberg_namespace": _READ,
    "list_iceberg_tables": _READ,
    "load_iceberg_table": _CONTENT,
    "head_iceberg_table": _READ,
    "metrics": Operation(Scope.READ, public="metrics"),
    "use_tools": Operation(None, any_scope=True),
    "get_openapi": Operation(Scope.READ, public="docs"),
    "get_docs": Operation(Scope.READ, public="docs"),
    "live": _OPEN,
    "ready": _OPEN,
    "ready_to_read": _OPEN,
    "ready_to_receive": _OPEN,
    "get_root": _OPEN,
    "redirect_to_console": _OPEN,
    "get_console": _OPEN,
    "list_problems": _OPEN,
    "get_problem": _OPEN,
}
"""By operation identifier."""

LINKED = frozenset({"get_attachment_content", "head_attachment_content", "get_attachment_receipt", "stream_events"})
"""The operations that a signed link may be for."""

"""The context of a trace, as it travels with messages and requests: the `traceparent` of W3C Trace Context.

Source: W3C, Trace Context, Level 1 (Recommendation), section 3.2. Nothing of it is trusted: what does not have exactly
this form counts as absent. The list of vendors' facts that may accompany it (`tracestate`) is not carried on.
"""

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final, NamedTuple

TRACE_PARENT: Final = "traceparent"
"""The name of the property or header field that carries a context."""
_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII | re.DOTALL)
_FORBIDDEN_VERSION = "ff"
_SAMPLED = 0x01
_MAX_LENGTH = 512
"""The length of the longest text that is read. Later versions may have more fields than version 00."""


class TraceContext(NamedTuple):
    """A trace (32 hexadecimal digits), the span in it that is the parent (16), and whether its sender records it."""

    trace_id: str
    span_id: str
    is_sampled: bool

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{int(self.is_sampled):02x}"

    @classmethod
    def parse(cls, text: str) -> "TraceContext | None":
        """Return the context of a `traceparent`, None for any other text.

        Fields that a later version adds are dropped.
        """
        found = _FORM.fullmatch(text) if len(text) <= _MAX_LENGTH else None
        if found is None:
            return None
        version, trace_id, span_id, flags, more = found.groups()
        if version == _FORBIDDEN_VERSION or (version == "00" and more is not None):
            return None
        if not trace_id.strip("0") or not span_id.strip("0"):
            return None
        return cls(trace_id, span_id, bool(int(flags, 16) & _SAMPLED))

    @classmethod
    def of(cls, trace_parent: str | None) -> "TraceContext | None":
        """Return the context of a kept `traceparent`, if there is one."""
        return None if trace_parent is None else cls.parse(trace_parent)


def trace_parent_in(properties: Mapping[str, str]) -> str | None:
    """Return the `traceparent` among a message's properties in the form of version 00; None if there is no valid
    one."""
    text = properties.get(TRACE_PARENT)
    context = None if text is None else TraceContext.parse(text)
    return None if context is None else str(context)


def span_id_of(subject: str, phase: str) -> str:
    """Return the span of a phase of an attachment or a delivery, 16 hexadecimal digits.

    It follows from the subject's identifier. So another process, and one that was restarted, continue the same trace
    without a message.
    """
    return blake2b(f"{phase}/{subject}".encode(), digest_size=8, person=b"span").hexdigest()


def own_trace_parent(subject: str, phase: str, ratio: float) -> str | None:
    """Return the `traceparent` of a trace that begins with the first phase of a subject without one.

    Of all subjects this is the share `ratio` (0 to 1), chosen by their identifiers; None for the others. The
    identifier, 32 hexadecimal digits, becomes the trace's identifier.
    """
    if int(subject[16:], 16) >= ratio * (1 << 64):
        return None
    return str(TraceContext(subject, span_id_of(subject, phase), is_sampled=True))


def trace_fields(trace_parent: str | None) -> dict[str, str]:
    """Return what a log line of a traced subject says of its trace; nothing for one that is not traced."""
    context = TraceContext.of(trace_parent)
    return {} if context is None else {"trace_id": context.trace_id}

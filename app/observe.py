"""The log of the gateway. Metrics are in `app.metrics`."""

import logging
import sys
from collections.abc import Mapping, MutableMapping
from io import StringIO
from time import monotonic
from typing import Any, TextIO

import structlog

from app.model.errors import GatewayError
from app.model.masking import masked, printable

_QUIET_BELOW_WARNING = ("alembic", "httpx", "httpcore", "mcp", "amqtt", "py4j", "transitions")


_NO_FACTS: Mapping[str, object] = {}


def _printable_fields(_logger: object, _name: str, fields: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a record as a terminal may get them."""
    return {key: printable(value) if isinstance(value, str) else value for key, value in fields.items()}


def _printable_traceback(to: TextIO, error: Any) -> None:
    """Write a traceback as a terminal may get it."""
    whole = StringIO()
    structlog.dev.plain_traceback(whole, error)
    to.write(printable(whole.getvalue(), "\n"))


def is_for_people(style: str, stream: TextIO | None = None) -> bool:
    """Return whether the log in this style is for people, not for programs; see `configure_logging`."""
    return (sys.stderr if stream is None else stream).isatty() if style == "auto" else style == "console"


def configure_logging(
    level: str = "info", style: str = "auto", stream: TextIO | None = None, facts: Mapping[str, object] = _NO_FACTS
) -> None:
    """Send records of structlog and the standard library to one stream (standard error), one record a line.

    `style` is "json", "console" (for people) or "auto": console when the stream is a terminal. Each line has `facts`.
    """
    to = sys.stderr if stream is None else stream
    shared: list[Any] = [
        lambda _logger, _name, fields: {**facts, **fields},
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    rendering: list[Any] = (
        [
            _printable_fields,
            structlog.dev.ConsoleRenderer(colors=to.isatty(), exception_formatter=_printable_traceback),
        ]
        if is_for_people(style, to)
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    )
    rendering.append(lambda _logger, _name, line: masked(line))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(to)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET_BELOW_WARNING:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return the logger of a module, as in `log = logger(__name__)`."""
    bound: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return bound


class Recurring:
    """A fault of something that is retried.

    It is logged when it begins, as `<what>_failed`, and when it is over, as `<what>_recovered` with a count. In between
    only further reasons are logged, up to a limit.
    """

    MOST_REASONS = 5

    def __init__(self, log: structlog.stdlib.BoundLogger, what: str, level: int = logging.ERROR, **fields: Any) -> None:
        self._log, self._what, self._level = log.bind(**fields), what, level
        self._reasons: set[str] = set()
        self._since = 0.0
        self.failures = 0
        self.error: str | None = None
        """Why the last attempt failed, None if it succeeded."""

    def failed(self, error: BaseException | str, **fields: Any) -> None:
        """Count a failure. Texts and this program's own errors are logged as sentences, others with their traceback."""
        if not self.failures:
            self._since = monotonic()
        self.failures += 1
        self.error = masked(str(error)) or type(error).__name__
        if self.error not in self._reasons and len(self._reasons) < self.MOST_REASONS:
            self._reasons.add(self.error)
            trace = None if isinstance(error, GatewayError | str) else error
            self._log.log(self._level, f"{self._what}_failed", reason=self.error, exc_info=trace, **fields)

    def worked(self) -> None:
        """Record a success, which ends the fault."""
        if self.failures:
            seconds = round(monotonic() - self._since, 1)
            self._log.info(f"{self._what}_recovered", failures=self.failures, seconds=seconds)
            self.failures, self.error = 0, None
            self._reasons.clear()

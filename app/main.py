"""The composition root: settings -> adapters -> service -> web."""

import gc
import os
import signal
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import fields
from functools import cache, partial
from importlib.metadata import version
from time import monotonic, time_ns
from types import FrameType
from typing import ParamSpec, TypeVar

import uvicorn

from app import plugins
from app.framing.registry import traits
from app.metrics import Metrics
from app.model.errors import GatewayError, LeaseLost
from app.model.masking import masked
from app.model.message import Position
from app.observe import logger
from app.ports import Catalog, Clock, ContentStore, HeldLease, Journal, WritableJournal
from app.service.content.archived import archive_of
from app.service.context import ArchiveContext, ReceiverContext, ServiceContext, WriterContext
from app.service.events.event_spans import Traces
from app.service.gateway import Gateway
from app.service.instance import new_instance
from app.service.receiving.catalog_claim import assembled, require_one_archive
from app.service.repair import record_files
from app.service.roles.election import StandingBy
from app.service.threads import collect_seldom, keep_memory, switch_soon
from app.settings import Http, Role, Settings, Standby
from app.span_names import SERVICE, process_attributes
from app.web.app import create_app
from app.web.server.certificate import Certificate
from app.web.server.standby_app import standing_by
from app.web.server.uvicorn_configuration import configuration

log = logger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

GRACE_SECONDS = 10
SUPERSEDED_STATUS = 75
"""The exit status of a gateway whose place another one has taken: it is to be started again (EX_TEMPFAIL)."""
Durable = Callable[[str], Position | None]
"""A function from a journal's id to the last position in it that is known to have been durable."""


class SystemClock:
    """The machine's clock, as `app.ports.Clock`."""

    def now(self) -> int:
        return time_ns() // 1000

    def monotonic(self) -> float:
        return monotonic()


def build(settings: Settings, instance: str | None = None, active: HeldLease | None = None) -> Gateway:
    """Return a gateway with the adapters that the settings name; nothing runs yet. Raises GatewayError.

    `instance` is the name of this process; by default a new one.

    With the lease of the `active` gateway it takes over from any other one: from then on, that one can write nothing.
    """
    _opened("data folder", settings.data.mkdir, parents=True, exist_ok=True)
    store = _opened("content store", plugins.content_store(), settings.content_url)
    _opened("catalog", _require_known, settings, store)
    clock: Clock = SystemClock()
    is_receiver = Role.RECEIVE in settings.roles
    make = partial(_receiver_context, active) if settings.is_sole_receiver else _archive_context
    context = make(settings, store, clock, instance or new_instance())
    own = _own_context(context) if is_receiver and not settings.is_sole_receiver else None
    receivers = {
        name: plugins.transport(source.transport).receiver(name, traits(source.framing), source.options)
        for name, source in settings.sources.items()
        if is_receiver
    }
    senders = {
        name: plugins.transport(destination.transport).sender(name, destination.options)
        for name, destination in settings.destinations.items()
        if Role.SERVE in settings.roles
    }
    url = settings.journal.archive_url if settings.is_sole_receiver else None
    archive = None if url is None else _opened("archive", plugins.content_store(), url)
    return Gateway(context, receivers, senders, archive, own)


def _require_known(settings: Settings, store: ContentStore) -> None:
    """Raise NewerFormat if a newer version has written the catalog or its records.

    The journal compares its own format when it is opened; these two come before, as opening it changes it. A bucket may
    be out of reach now: records in one are compared before the first is written.
    """
    plugins.catalog().database(settings.catalog_url).require_known()
    if store.local_path(record_files.FOLDER.removesuffix("/")) is not None:
        record_files.last_recorded_event(store)


def _receiver_context(
    active: HeldLease | None, settings: Settings, store: ContentStore, clock: Clock, instance: str
) -> ReceiverContext:
    journal, catalog = _storage(settings, clock, active)
    return ReceiverContext(
        settings=settings,
        journal=journal,
        catalog=catalog,
        store=store,
        clock=clock,
        metrics=Metrics(),
        traces=_traces(settings, instance),
        instance=instance,
    )


def _own_context(context: ServiceContext) -> WriterContext:
    """Return the context of a receiver among several: it has a journal for itself, in its data folder or in a place
    within the archive."""
    settings = context.settings
    if settings.journal.ack == "archive":
        place = settings.journal.archive_url or ""
        opened: WritableJournal = _opened("journal", plugins.object_journal(), place, settings.archive_cache)
    else:
        opened = _journal(settings, context.clock, lambda _journal: None)
    others = {field.name: getattr(context, field.name) for field in fields(context)}
    return WriterContext(**others | {"journal": opened})


def _archive_context(settings: Settings, store: ContentStore, clock: Clock, instance: str) -> ArchiveContext:
    """Return the context of a process that does not receive, or not alone. Without an archive, the sealed segments in
    the data folder are all that can be read. A catalog of several archives knows where they are."""
    catalog: Catalog = _opened("catalog", plugins.catalog(), settings.catalog_url)
    if settings.roles != {Role.SERVE}:
        require_one_archive(catalog, masked(settings.catalog_url))
    if settings.journal.archive_url is None:
        _opened("journal", settings.journal_folder.mkdir, parents=True, exist_ok=True)
    place = settings.journal.archive_url or settings.journal_folder
    return ArchiveContext(
        settings=settings,
        journal=_opened("archive", archive_of, catalog, place, settings, is_growing=True),
        catalog=catalog,
        store=store,
        clock=clock,
        metrics=Metrics(),
        traces=_traces(settings, instance),
        instance=instance,
    )


def _traces(settings: Settings, instance: str) -> Traces:
    spans = None
    if settings.traces.enabled:
        process = process_attributes(instance, settings.roles)
        spans = _opened("exporter of spans", plugins.span_exporter(), SERVICE, version("attachment-gateway"), process)
    return Traces(settings, spans)


def _storage(settings: Settings, clock: Clock, active: HeldLease | None) -> tuple[Journal, Catalog]:
    """Open journal and catalog.

    A gateway alone locks the journal first. Of several gateways, the catalog gives the `active` one the epoch of the
    journal, unless its lease is lost. The catalog says, too, what of the journal was durable.
    """

    @cache
    def catalog() -> Catalog:
        return _opened("catalog", plugins.catalog(), settings.catalog_url)

    def durable(journal: str) -> Position | None:
        return assembled(catalog(), journal)

    if active is None:
        return _journal(settings, clock, durable), catalog()
    last = _opened("journal", plugins.journal().last_epoch, settings.journal_folder)
    return _journal(settings, clock, durable, catalog().under(active).take_over(last + 1)), catalog()


def _journal(settings: Settings, clock: Clock, durable: Durable, epoch: int | None = None) -> Journal:
    return _opened(
        "journal",
        plugins.journal(),
        settings.journal_folder,
        segment_bytes=settings.journal.segment_bytes,
        segment_age=settings.journal.segment_age.total_seconds(),
        clock=clock,
        epoch=epoch,
        durable=durable,
    )


def _opened(what: str, make: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Return the result of `make`. Errors of the libraries that adapters use become GatewayError."""
    try:
        return make(*given, **named)
    except GatewayError:
        raise
    except Exception as error:
        why = str(error).partition("\n")[0] or type(error).__name__
        raise GatewayError(f"the {what} cannot be opened: {why}") from error


def serve(
    settings: Settings,
    instance: str | None = None,
    started: Callable[[int, bool], None] = lambda _port, _has_keys: None,
) -> None:
    """Run the gateway and its REST interface until a signal ends it. Raises GatewayError.

    `instance` is the name of this process. `started` is called when the gateway receives and REST is about to answer:
    with the port, and whether there are API keys.

    The port is bound first: a second gateway, started by mistake, must not take the broker's session from the first.
    """
    with closing(bound(settings.http)) as listener:
        keep_memory()
        if settings.http.cert_file is not None:
            Certificate(settings.http)  # an error is raised before anything is changed
        instance = instance or new_instance()
        run = partial(_serve, settings, instance, listener, started)
        if settings.standby is None or Role.RECEIVE not in settings.roles:  # others run side by side
            run(None, nullcontext(), (lambda _why: None) if settings.is_sole_receiver else _leave)
        else:
            _stand_by(settings, settings.standby, instance, listener, run)


def _serve(
    settings: Settings,
    instance: str,
    listener: socket.socket,
    started: Callable[[int, bool], None],
    active: HeldLease | None,
    before: AbstractContextManager[object],
    taken: Callable[[str], None],
) -> None:
    """Run the gateway. `before` is left when REST is about to answer."""
    gateway: Gateway | None = None
    try:
        with before:
            gateway = build(settings, instance, active)
            gateway.on_taken = taken
            gc.collect()
            collect_seldom()
            switch_soon()
            gateway.start()
            started(listener.getsockname()[1], bool(gateway.catalog.api_keys()))
        _Server(gateway).run([listener])
    finally:
        if gateway is not None:
            gateway.stop()


def _stand_by(
    settings: Settings,
    standby: Standby,
    instance: str,
    listener: socket.socket,
    run: Callable[[HeldLease, AbstractContextManager[object], Callable[[str], None]], None],
) -> None:
    """Wait until this gateway is to be active, then run it. A signal ends both."""
    leases = _opened("catalog", plugins.catalog().leases, settings.catalog_url)
    waiting = StandingBy(leases, instance, standby.duration.total_seconds(), _leave)
    before = {each: signal.signal(each, lambda *_: waiting.wake()) for each in (signal.SIGTERM, signal.SIGINT)}
    with ExitStack() as serving:
        serving.enter_context(standing_by(listener, settings, waiting.election.check))
        log.info("standby_begun", name=instance)
        try:
            active = waiting.wait()
            for number, handler in before.items():
                signal.signal(number, handler)
            if active is not None and not waiting.is_woken:
                run(active, serving.pop_all(), _leave)
        except LeaseLost as error:
            _leave(str(error))
        finally:
            waiting.release()


def _leave(why: str) -> None:
    """End this process at once, as another gateway is active or will be. Nothing is flushed, closed or waited for."""
    log.error("gateway_superseded", reason=why)
    os._exit(SUPERSEDED_STATUS)


def bound(http: Http) -> socket.socket:
    """Bind the port without listening, so that clients are refused, not kept waiting, while the gateway recovers.

    Raises GatewayError.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in http.host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((http.host, http.port))
    except OSError as error:
        listener.close()
        raise GatewayError(f"cannot listen on {http.host} port {http.port}: {error.strerror or error}") from error
    return listener


class _Server(uvicorn.Server):
    """uvicorn, which informs the gateway of the end before it waits for clients."""

    def __init__(self, gateway: Gateway) -> None:
        http = gateway.settings.http
        app = create_app(gateway)
        super().__init__(configuration(app, http, timeout_graceful_shutdown=GRACE_SECONDS))
        self._gateway = gateway

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End the server, but not the process as uvicorn does: the gateway must still be stopped."""
        del frame
        self._gateway.drain()
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

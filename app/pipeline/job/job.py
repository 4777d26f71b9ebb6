"""The description of a job for its tasks: plain data without secrets, which is sent to every worker."""

from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from secrets import token_hex

from app import plugins
from app.assembly.machine import AssemblyLimits
from app.codecs.sas import dialect
from app.framing.registry import UnknownFraming, traits
from app.model.records import CombinedArchives
from app.pipeline.read.journal_archives import combined, is_folder
from app.ports import Catalog, Clock, ContentStore, JournalArchive, TableStore
from app.service.context import Stores
from app.settings import Section, Settings, Source


@dataclass(frozen=True, slots=True)
class Job:
    """The places of the data by path or URL, and the sources' conventions for messages that do not contain them.

    `journals` are the places of the archives. If they are several, `combined` is the order of their segments.
    Credentials of object stores are in the environment of the process that opens them. `forget_finished` (seconds) is
    how long late duplicates are recognized. Every `expire_unfinished` seconds an open attachment is checked. `cache` is
    the folder for segments of an object store, and `cache_bytes` its size. A commit of a batch takes at most
    `commit_bytes` of the journal, but at least one segment. `run` tells the runs of one process apart:
    each opens the archive anew. `packing` is the form in which the run's catalog takes packed rows, None if it takes
    none.
    """

    journals: tuple[str, ...]
    content: str
    tables: str | None
    settings: Settings
    in_place: bool = True
    forget_finished: float = 7 * 86400.0
    expire_unfinished: float = 7 * 86400.0
    cache: str | None = None
    cache_bytes: int = 4 << 30
    commit_bytes: int = 16 << 30
    run: str = ""
    packing: str | None = None
    combined: CombinedArchives | None = None

    @classmethod
    def of(cls, settings: Settings, *journals: str, in_place: bool, tables: bool = True) -> "Job":
        # Only the settings that are needed to read messages, without places and passwords.
        sources = {
            name: Source.model_construct(
                transport=source.transport,
                framing=source.framing,
                options=Section(),
                dialect=source.dialect,
                ccsid=source.ccsid,
                encoding=source.encoding,
                line_end=source.line_end,
                on_doubt=source.on_doubt,
            )
            for name, source in settings.sources.items()
        }
        return cls(
            journals=tuple(each if "://" in each else str(Path(each).absolute()) for each in journals),
            content=settings.content_url,
            tables=settings.tables_url if tables else None,
            settings=Settings.model_construct(
                text=settings.text, limits=settings.limits, traces=settings.traces, sources=sources
            ),
            in_place=in_place,
            forget_finished=settings.pipeline.forget_finished.total_seconds(),
            expire_unfinished=settings.expiry.unfinished.total_seconds(),
            cache=None if settings.pipeline.cache is None else str(settings.pipeline.cache),
            cache_bytes=settings.pipeline.cache_bytes,
            commit_bytes=settings.pipeline.commit_bytes,
        )

    @property
    def journal(self) -> str:
        """Return the place of the journal, or the places of the journals, for people."""
        return ", ".join(self.journals)

    @property
    def is_local(self) -> bool:
        """Return whether all segments are in folders, and none in an object store."""
        return all(map(is_folder, self.journals))

    @property
    def limits(self) -> AssemblyLimits:
        return AssemblyLimits(self.settings.limits.parts, self.settings.limits.attachments_a_message)

    def configured_dialects(self, source: str) -> int | None:
        """Return the dialects in a source's configuration, None if they are to be detected."""
        known = self.settings.sources.get(source)
        return None if known is None or known.dialect is None else dialect.mask_of(dialect.Dialect.parse(known.dialect))


@dataclass(frozen=True, slots=True)
class OpenJob:
    """A job with its open stores, in any process."""

    job: Job
    stores: Stores
    archive: JournalArchive
    tables: TableStore | None


@dataclass(frozen=True, slots=True)
class OpenRun(OpenJob):
    """A run of a job in the driver, which alone has the catalog."""

    catalog: Catalog
    clock: Clock


def open_run(job: Job, catalog: Catalog, clock: Clock) -> OpenRun:
    """Open the stores of a job for another run: segments may have been replaced. New segments of several archives get
    their numbers. Raises GatewayError."""
    order = combined(job.journals, catalog, plugins.archive())
    opened = open_job(replace(job, run=token_hex(8), packing=catalog.packing(), combined=order))
    return OpenRun(opened.job, opened.stores, opened.archive, opened.tables, catalog, clock)


def open_job(job: Job) -> OpenJob:
    """Open the stores of a job, once for each process. Raises GatewayError."""
    for name, source in job.settings.sources.items():
        try:
            traits(source.framing)
        except UnknownFraming as error:  # its messages would go to quarantine
            why = f"source {name!r}: {error}; install the package of this framing wherever tasks run"
            raise plugins.PluginError(why) from error
    archive = _archive(job.combined or job.journal, job.cache, job.cache_bytes, job.run)
    content, tables = _stores(job.content, job.tables)
    stores = Stores(settings=job.settings, journal=archive, store=content, in_place=job.in_place)
    return OpenJob(job, stores, archive, tables)


@lru_cache(maxsize=2)
def _archive(place: str | CombinedArchives, folder: str | None, size: int, run: str) -> JournalArchive:  # noqa: ARG001
    cache = None if folder is None else Path(folder)
    if isinstance(place, CombinedArchives):
        return plugins.archive().combined(place.behind, cache, size)
    return plugins.archive()(place, cache, size)


@cache
def _stores(content: str, tables: str | None) -> tuple[ContentStore, TableStore | None]:
    return plugins.content_store()(content), None if tables is None else plugins.table_store()(tables)

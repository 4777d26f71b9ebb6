"""The scenario of the pipeline: an archive is assembled on Spark while drivers, workers and executors are killed.

A killed run is started again, until one ends by itself. Then everything is compared with what was written, and with a
run in this process that nobody disturbed.
"""

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from random import Random
from time import monotonic
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from adapters.delta_tables import DeltaTables
from adapters.object_store import ObjectStore
from app.model.attachment import AttachmentKind, AttachmentState
from app.pipeline.commit import commit_intent
from app.pipeline.commit.tables import QUALITY
from app.testing.host_results import HostResults, assert_same, in_folder, settings, tables
from tests.faults.judging import Verdict
from tests.faults.pipeline_kills import Kill, drawn, one
from tests.faults.pipeline_run import Run
from tests.faults.world import Hung
from tests.support.damaged_archive import Archive
from tests.support.local_steps import run_batch

MOST = 17
"""The number of kills that one round draws."""
PARTS = 4
"""The number of parts in which an archive arrives at most."""
EACH = 60
"""The number of attachments of each sender in the archive of a long round, beside some data sets and a larger file: so
many that results are packed."""
_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_OPTIONS = (
    *("--memory", "1g"),
    *("--conf", f"spark.driver.extraJavaOptions={_JAVA}"),
    *("--conf", f"spark.executor.extraJavaOptions={_JAVA}"),
)
_LOCAL = ("--master", "local[2,8]", "--partitions", "2")
"""Several workers of a run are killed: a task may fail seven times."""


class Host(NamedTuple):
    """A host of the pipeline: its command with `{journal}`, `{out}` and `{config}`, and the processes to kill.

    Those with a higher number are drawn more often.
    """

    command: tuple[str, ...]
    targets: Mapping[str, int] = MappingProxyType({"driver": 1, "java": 1, "everything": 1, "worker": 20})


HOSTS = {
    "batch": Host(("batch", "{journal}", "--out", "{out}", *_LOCAL)),
    "stream": Host(("stream", "--journal", "{journal}", "--config", "{config}", "--once", *_LOCAL)),
    "cluster": Host(
        ("batch", "{journal}", "--out", "{out}", "--master", "local-cluster[2,1,1024]", "--partitions", "2"),
        {"driver": 1, "java": 1, "everything": 1, "worker": 14, "executor": 6},
    ),
}
SHORT = ("everything", "between tables")
"""The kill of the short form."""
FAILURES = 2
"""The number of runs of a round that may fail by themselves: Spark waits only ten seconds for a worker, and a busy
machine may need longer."""
SAYS_WHAT_TO_DO = "then run the command again"
_SHOWN = 3000


def kills(host: str, seed: str, count: int | None) -> list[Kill]:
    """Return the kills of a round: this number of them, or the one of the short form."""
    return [one(seed, *SHORT)] if count is None else drawn(f"{host} {seed}", HOSTS[host].targets, count)


def run(host: str, seed: str, folder: Path, count: int | None = None) -> Verdict:
    """Assemble an archive in spite of the kills of a seed, and judge the result."""
    random = Random(f"archive {host} {seed}")
    round_ = _Round(host, Archive(folder, random, each=EACH if count else 6), folder)
    try:
        round_.run(kills(host, seed, count), random, parts=random.randint(1, PARTS) if count else 1)
    except Hung as standstill:
        round_.hung.append(str(standstill))
    if not round_.hung:
        round_.judge()
    return round_.verdict()


class _Round:
    """An archive, its runs and their findings, with a note each."""

    def __init__(self, host: str, archive: Archive, folder: Path) -> None:
        self._host, self._archive, self._folder = HOSTS[host], archive, folder
        self._runs: list[Run] = []
        self._began = monotonic()
        self._failed = 0
        self.faults = 0
        self.lost: list[str] = []
        self.twice: list[str] = []
        self.wrong: list[str] = []
        self.hung: list[str] = []
        self.notes: list[str] = []
        self._configuration = folder / "gateway.toml"
        # Old traffic must not expire, and the archive must make several micro-batches.
        self._configuration.write_text(
            f'data = "{archive.out}"\n[expiry]\nunfinished = "36500d"\n[pipeline]\nbytes_per_trigger = "1 MiB"\n'
        )

    def note(self, text: str) -> None:
        self.notes.append(f"{monotonic() - self._began:6.1f} s  {text}")

    def verdict(self) -> Verdict:
        found = {"lost": self.lost, "twice": self.twice, "wrong": self.wrong, "hung": self.hung}
        said = [f"{name}: {each}" for name, some in found.items() for each in some]
        counts = {name: len(some) for name, some in found.items()}
        return Verdict(self.faults, **counts, notes=(*said, *self.notes))

    # --- runs ---------------------------------------------------------------------------------------------------------

    def run(self, plan: Sequence[Kill], random: Random, *, parts: int) -> None:
        """Start runs until one ends by itself, and the whole archive has arrived. Raises Hung.

        The archive arrives in this number of parts: the next one after a run that has ended by itself, and after every
        second that is killed.
        """
        self.note(f"{[f'{each.target} {each.moment}' for each in plan]}, the archive arrives in {parts} parts")
        held = self._hold_back(parts)
        coming = list(plan)
        try:
            while (again := self._ran(coming)) or held:
                if held and (not again or random.random() < 0.5):
                    for segment in held.pop(0):
                        segment.rename(self._archive.journal / segment.name)
            for each in self._runs:
                each.await_gone()
        finally:
            for each in self._runs:
                each.close()

    def _hold_back(self, parts: int) -> list[list[Path]]:
        """Put all parts of the archive but the first one aside, and return them."""
        numbers = self._archive.numbers
        aside = self._folder / "aside"
        aside.mkdir()
        each = -(-len(numbers) // parts)
        return [
            [
                self._archive.segment(number).rename(aside / self._archive.segment(number).name)
                for number in numbers[at : at + each]
            ]
            for at in range(each, len(numbers), each)
        ]

    def _ran(self, coming: list[Kill]) -> bool:
        """Run once, with the next kills up to one that ends it. Return whether it must be started again."""
        places = {"journal": self._archive.journal, "out": self._archive.out, "config": self._configuration}
        command = [word.format(**places) for word in self._host.command]
        run = Run([*command, *_OPTIONS], self._archive.out, self._folder / "runs.log")
        self._runs.append(run)
        hit = False
        while coming and run.status is None:
            kill = coming[0]
            if not kill.strike(run):
                self.note(f"no {kill.target} to kill at the moment {kill.moment!r}")
                break
            del coming[0]
            hit = True
            self.faults += 1
            self.note(f"killed: {kill}")
            if kill.ends_the_run:
                run.await_end()
                if kill.loses_checkpoint:
                    run.await_gone()
                    shutil.rmtree(settings(self._archive.out).pipeline_checkpoint, ignore_errors=True)
                return True
        status = run.await_end()
        if status and not hit:
            self._failed += 1
            if self._failed > FAILURES or SAYS_WHAT_TO_DO not in run.said:
                raise Hung(f"a run that was not disturbed ends with {status}: {run.said}")
            self.note(f"failed by itself: {run.said}")
        self.note(f"ended with {status}")
        return status != 0

    # --- what came of it ----------------------------------------------------------------------------------------------

    def judge(self) -> None:
        """Compare with what was written, and with an undisturbed run."""
        archive = self._archive
        run_batch(archive.whole, archive.journal)
        try:
            mine, whole = (in_folder(each, archive.journal) for each in (archive.out, archive.whole))
        except (AssertionError, KeyError) as error:
            self.wrong.append(f"content is not as the catalog says: {error!r}")
            return
        self._compare_content(mine)
        try:
            assert_same(mine, whole, settled=True)
        except AssertionError as error:
            self.wrong.append(f"the catalog differs from that of an undisturbed run: {str(error)[:_SHOWN]}")
        self.wrong += [f"quarantined: {entry}" for entry in mine.quarantine]
        self._compare_tables(mine)
        self._compare_objects(mine)

    def _compare_content(self, mine: HostResults) -> None:
        store = ObjectStore(settings(self._archive.out).content_url)
        items: dict[tuple[str, bytes], list[dict[str, Any]]] = {}
        for item in mine.attachments.values():
            items.setdefault((item["source"], item["correl_id"]), []).append(item)
        sent = {(source, each.definition.correl_id): each for source, each in self._archive.sent}
        self.twice += [f"{key} was never sent" for key in items.keys() - sent.keys()]
        self.twice += [f"{key} is listed {len(some)} times" for key, some in items.items() if len(some) > 1]
        for key, attached in sent.items():
            item = items.get(key, [{"state": "unknown"}])[0]
            if item["state"] is not AttachmentState.FINISHED:
                self.lost.append(f"{key}: {item}")
            elif attached.definition.kind is AttachmentKind.DATA_SET:
                assert isinstance(attached.content, pa.Table)
                rows = pq.read_table(BytesIO(b"".join(store.read(item["object_name"])))).to_pydict()
                if rows != attached.content.to_pydict():
                    self.wrong.append(f"{key}: other rows than were sent")
            elif item["sha256"] != attached.sha256:
                self.wrong.append(f"{key}: other bytes than were sent")

    def _compare_tables(self, mine: HostResults) -> None:
        found, expected = (tables(each) for each in (self._archive.out, self._archive.whole))
        for name in sorted(found.keys() | expected.keys()):
            here, there = found.get(name, (0, "")), expected.get(name, (0, ""))
            if here != there:
                place = self.twice if here[0] > there[0] else self.lost if here[0] < there[0] else self.wrong
                place.append(f"table {name}: {here} instead of {there}")
        store = DeltaTables(settings(self._archive.out).tables_url)
        in_tables: Counter[str] = Counter()
        for name in store.names():
            if name != QUALITY:
                in_tables.update(id_ for batch in store.rows(name, ["attachment"]) for id_ in batch[0].to_pylist())
        for id_, item in mine.attachments.items():
            rows, expected_rows = in_tables.pop(id_, 0), 1 if item["observations"] is None else item["observations"]
            if rows != expected_rows:
                place = self.twice if rows > expected_rows else self.lost
                place.append(f"{id_} has {rows} rows in the tables instead of {expected_rows}")
        self.wrong += [f"{id_} is only in the tables" for id_ in in_tables]

    def _compare_objects(self, mine: HostResults) -> None:
        store = ObjectStore(settings(self._archive.out).content_url)
        if commit_intent.begun(store) is not None:
            self.hung.append("a commit was begun and not ended")
        names = {item["object_name"] for item in mine.attachments.values()}
        self.twice += [
            f"object {name} belongs to nothing" for name in set(store.names()) - names - {commit_intent.NAME}
        ]

"""The processes of a scenario: a sender, a broker, a proxy before the gateway, and the gateway with a shim."""

import atexit
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from time import monotonic, sleep
from types import TracebackType
from typing import Any, NamedTuple

import httpx

from tests.faults.damage import Range, WrittenRows, exposed, read
from tests.faults.ledger import Ledger
from tests.faults.proxy import Proxy
from tests.faults.receipt_audit import ReceiptAudit
from tests.faults.sender import Sender
from tests.faults.shim import Shim
from tests.faults.traffic import Message
from tests.support.forked_gateway import ForkedGateway, Forks
from tests.support.gateway import GatewayProcess, mqtt_source
from tests.support.mosquitto import Mosquitto
from tests.support.mounted import mounted

TOPIC = "faults"
SOURCE = "sas"
START_LIMIT = 60.0
PROGRESS_LIMIT = 30.0
"""Seconds without progress after which the gateway counts as hung."""
STILL = 2.0
"""Seconds without a change after which lost messages and damaged attachments are no longer waited for."""
TELLS = re.compile(r"attachment-gateway ((?:fsck|rebuild)(?: --repair)?)")
"""The command that a gateway names when it refuses to start."""
SPEAKS_OF_DAMAGE = re.compile(r"damag|lost|unreadable|missing|malformed|not a database|torn", re.IGNORECASE)
DAMAGE_CODES = ("damaged-message", "damaged-part")
"""The codes of entries in quarantine that report damage."""
_ADVICE_FOLLOWED = 3
_DONE = (0, 1)
"""Exit statuses of a command that did its work: 1 means that it found something wrong."""


class Hung(Exception):
    """The gateway made no progress, or did not start."""


class Setting(NamedTuple):
    """The settings of a scenario's world.

    `disk` and `catalog_disk` are sizes, in bytes, of separate file systems for the gateway's folder and for its
    catalog. `journal_bound` is the size that the journal may have in the end, `memory_bound` the peak memory of the
    process.
    """

    settings: str = ""
    segment_bytes: str = "1 MiB"
    settle_after: str = "0"
    disk: int = 0
    catalog_disk: int = 0
    receive_maximum: int = 100
    journal_bound: int = 0
    memory_bound: int = 0


@cache
def _shared() -> tuple[Shim, Forks]:
    """Return the shim and the process to be forked with it, which all worlds use, one after the other."""
    ending = ExitStack()
    atexit.register(ending.close)
    folder = Path(mkdtemp(prefix="faults-"))  # no TemporaryDirectory: see tests.support.forked_command.program
    ending.callback(shutil.rmtree, folder, ignore_errors=True)
    shim = Shim(folder)
    ending.callback(shim.close)
    forks = Forks(shim.environment)
    ending.callback(forks.close)
    return shim, forks


class World:
    """A scenario's processes, files and ledger.

    Faults act on it and record their possible damage: `exposed` are the attachments whose bytes were damaged, which the
    gateway may report instead of serving.
    """

    def __init__(self, folder: Path, setting: Setting, random: Random) -> None:
        self.random = random
        self.folder = folder
        self.ledger = Ledger()
        self.exposed: set[bytes] = set()
        self.broker_lost = False
        self.is_catalog_damaged = False
        self.faults = 0
        self.deaths = 0
        self.misdeeds: list[str] = []
        self.notes: list[str] = []
        self.setting = setting
        self._written: dict[str, WrittenRows] = {}
        self._began = monotonic()
        self._ending = ExitStack()

    def __enter__(self) -> "World":
        with ExitStack() as ending:
            self.place = self.folder / "gateway"
            self.place.mkdir()
            self.receipts = ReceiptAudit(self.folder)
            if self.setting.disk:
                ending.enter_context(mounted(self.place, self.setting.disk))
            catalog = ""
            if self.setting.catalog_disk:
                self.catalog_place = self.folder / "catalog"
                self.catalog_place.mkdir()
                ending.enter_context(mounted(self.catalog_place, self.setting.catalog_disk))
                catalog = f'[catalog]\nurl = "sqlite:///{self.catalog_place / "catalog.sqlite"}"\n'
            self.broker = ending.enter_context(
                Mosquitto(self.folder, persistent=True, settings="autosave_interval 1\n")
            )
            self.proxy = Proxy(self.broker.port, self.ledger)
            ending.callback(self.proxy.close)
            self.sender = Sender(self.broker.port, TOPIC, self.ledger)
            ending.callback(self.sender.close)
            self.shim, forks = _shared()
            ending.callback(self.shim.reset)
            self.gateway = ForkedGateway(self.place, self._toml(catalog), forks)
            self.client = self.gateway.client
            ending.callback(self._end)
            self.start()
            self.gateway.await_source(SOURCE)
            self._ending = ending.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.close()

    def _toml(self, catalog: str) -> str:
        options = f"receive_maximum = {self.setting.receive_maximum}\n"
        return (
            f'[journal]\nsegment_bytes = "{self.setting.segment_bytes}"\n'
            f'[content]\nsettle_after = "{self.setting.settle_after}"\n'
            + catalog
            + self.setting.settings
            + self.receipts.settings
            + mqtt_source(SOURCE, self.proxy.port, TOPIC, options=options)
        )

    def _end(self) -> None:
        if self.gateway.process is not None:
            self.gateway.kill()
        self.gateway.stop()

    def note(self, text: str) -> None:
        """Record an event, for the investigation of a broken promise."""
        self.notes.append(f"{monotonic() - self._began:6.1f} s  {text}")

    # --- traffic --------------------------------------------------------------------------------------------------

    def send(self, messages: Iterable[Message]) -> None:
        """Return when the broker has confirmed them."""
        self.sender.send(messages)

    def await_acknowledged(self) -> None:
        """Return when the gateway has acknowledged all messages that the broker has for it. Raises Hung.

        What a killed broker may have lost is sent again first.
        """
        if self.broker_lost:
            self.await_still(lambda: len(self.ledger.acknowledged))
            self.send([each for each in self.ledger.sent.values() if each.identity not in self.ledger.acknowledged])
            self.broker_lost = False
        self.progressing(lambda: not self.ledger.unacknowledged(), lambda: len(self.ledger.acknowledged), "taking")

    def progressing(self, done: Callable[[], Any], measure: Callable[[], Any], what: str) -> None:
        """Wait for a condition as long as a measure changes; restart the gateway when it ends. Raises Hung."""
        last, since = measure(), monotonic()
        while not done():
            self.revive()
            if (now := measure()) != last:
                last, since = now, monotonic()
            elif monotonic() - since > PROGRESS_LIMIT:
                raise Hung(f"{what} makes no progress: {last}")
            sleep(0.1)

    def await_still(self, measure: Callable[[], Any]) -> None:
        """Wait until a measure has not changed for a while; restart the gateway when it ends."""
        last, since, begun = measure(), monotonic(), monotonic()
        while monotonic() - since < STILL and monotonic() - begun < PROGRESS_LIMIT:
            sleep(0.2)
            self.revive()
            if (now := measure()) != last:
                last, since = now, monotonic()

    # --- the gateway ----------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        process = self.gateway.process
        return process is not None and process.poll() is None

    def kill(self) -> None:
        if self.is_running:
            self.gateway.kill()

    def revive(self) -> None:
        """Restart the gateway if it ended by itself, and count that."""
        if not self.is_running:
            self._died()
            self.start()

    def _died(self) -> None:
        process = self.gateway.process
        if process is not None:
            self.deaths += 1
            self.note(f"the gateway ended by itself with {process.returncode}: {self.gateway.log[-600:]}")
            self.gateway.process = None

    def start(self) -> None:
        """Start the gateway; if it refuses and names a command, run that and try again. Raises Hung."""
        for _ in range(_ADVICE_FOLLOWED):
            before = len(self.gateway.log) if (self.place / "gateway.log").exists() else 0
            self.gateway.spawn()
            process = self.gateway.process
            assert process is not None
            end = monotonic() + START_LIMIT
            while process.poll() is None:
                if self.gateway.is_up():
                    return
                if monotonic() > end:
                    raise Hung(f"the gateway does not come up: {self.gateway.log[before:][-2000:]}")
                sleep(0.05)
            self.gateway.process = None
            said = self.gateway.log[before:]
            advice = TELLS.findall(said)
            if not advice:
                status = process.returncode
                raise Hung(f"the gateway ends with {status} and does not say what to do: {said[-2000:]}")
            self.run(advice[-1])
        raise Hung("the gateway does not start after what it told to do was done")

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the gateway's program with its configuration, like an operator."""
        program = Path(sys.executable).parent / "attachment-gateway"
        asks = ["--yes"] if "--repair" in command or command.startswith("rebuild") else []
        given = [str(program), *shlex.split(command), *asks, "--config", str(self.place / "gateway.toml")]
        done = subprocess.run(
            given, capture_output=True, text=True, check=False, timeout=120, env=self.shim.environment
        )
        if done.returncode not in _DONE:
            raise Hung(f"{command} ends with {done.returncode}: {done.stdout[-1000:]}{done.stderr[-1000:]}")
        self.note(f"$ {command}: {done.returncode} {done.stdout[-1500:]}{done.stderr[-500:]}")
        return done

    def peak_memory(self) -> int:
        """Return the peak memory, in bytes, of the gateway's process."""
        assert self.gateway.process is not None
        status = Path(f"/proc/{self.gateway.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) << 10

    def is_live(self) -> bool:
        """Tell whether the gateway reports that it is live; no answer within a long time counts as not live."""
        try:
            return self.client.get("/health/live").status_code == 200
        except httpx.HTTPError:
            return False

    def listing(self, state: str | None = None) -> list[dict[str, Any]]:
        """Return all attachments that REST lists, or those in a state."""
        return self.gateway.listing("/v1/attachments", **({} if state is None else {"state": state}))

    def speaks_of_damage(self) -> bool:
        """Tell whether the gateway has reported damaged or missing bytes, in its log, in quarantine or by a command.

        A gateway that is killed right after a start may not have logged yet what it put into quarantine.
        """
        reports = (self.gateway.log, *self.notes)
        if any(map(SPEAKS_OF_DAMAGE.search, reports)):
            return True
        return any(entry["code"] in DAMAGE_CODES for entry in self.gateway.listing("/v1/quarantine"))

    def finished(self) -> set[bytes]:
        """Return the keys of the finished attachments; an empty set if the gateway does not answer."""
        try:
            items = self.listing("finished")
        except httpx.HTTPError:
            return set()
        return {bytes.fromhex(item["correl_id"]) for item in items}

    def await_settled(self) -> set[bytes]:
        """Return the keys of the attachments that are finished now, once all their content is in the content store.

        Raises Hung. The store may have objects of attachments, too, whose finishing is not recorded yet.
        """
        finished = {item["id"]: bytes.fromhex(item["correl_id"]) for item in self.listing("finished")}
        missing = partial(self._without_object, finished)
        self.progressing(lambda: not missing(), missing, "settling")
        return set(finished.values())

    def _without_object(self, ids: Iterable[str]) -> set[str]:
        return set(ids) - {path.name for path in self.objects()}

    @contextmanager
    def second_gateway(self, shares: str) -> Iterator[GatewayProcess]:
        """Start another gateway that shares the `folder`, the `catalog` or only the `client_id`."""
        place = self.folder / f"second-{self.faults}"
        place.mkdir()
        settings = self._toml(f'[catalog]\nurl = "sqlite:///{self.catalog}"\n' if shares == "catalog" else "")
        second = GatewayProcess(place, settings)
        if shares == "folder":
            path = place / "gateway.toml"
            path.write_text(path.read_text().replace(str(place / "var"), str(self.place / "var")))
        second.spawn()
        try:
            yield second
        finally:
            second.stop()

    def log_events(self) -> dict[str, int]:
        """Return the number of times that each event is in the log."""
        events: Counter[str] = Counter()
        for line in self.gateway.log.splitlines():
            try:
                events[str(json.loads(line)["event"])[:80]] += 1
            except (ValueError, KeyError, TypeError):
                events["not JSON"] += 1
        return dict(events.most_common(20))

    # --- files ----------------------------------------------------------------------------------------------------

    @property
    def journal(self) -> Path:
        return self.place / "var" / "journal"

    @property
    def content(self) -> Path:
        return self.place / "var" / "content"

    def objects(self) -> list[Path]:
        """Return the finished attachments in the content store."""
        return sorted(path for path in (self.content / "attachments").rglob("*") if path.is_file())

    def expose(self, segment: Path, damaged: list[Range]) -> None:
        """Enter the attachments that future damage to these bytes of a segment may cost."""
        for path in self.journal.glob("*.arrows"):
            read(path, self._written.setdefault(_number(path), {}))
        self.exposed |= exposed(self._written.get(_number(segment), {}), damaged, self.ledger)

    def expose_object(self, name: str) -> None:
        """Enter the attachment with this object among those that damage may cost."""
        self.exposed |= {bytes.fromhex(item["correl_id"]) for item in self.listing() if item["id"] in name}

    @property
    def has_catalog_disk(self) -> bool:
        return bool(self.setting.catalog_disk)

    @property
    def catalog(self) -> Path:
        folder = self.catalog_place if self.setting.catalog_disk else self.place / "var"
        return folder / "catalog.sqlite"


def _number(segment: Path) -> str:
    return segment.name.partition(".")[0]

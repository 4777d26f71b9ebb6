"""The scenario of a divided gateway: clients send and read at replicas chosen at random, while processes are killed or
paused for longer than leases, the database is cut off, stopped or killed, the store is slow, fails or is away, and the
queue manager is killed.

One process receives, three serve, and two keep. What clients send goes to the broker and comes back to the gateway, or
it goes to a queue. In the end every file must be there once, with the bytes that were sent, every delivery `sent`, and
each of its messages once on the queue. Meanwhile an answer may say that the gateway is unavailable, but never that it
failed. After each fault all processes become ready by themselves.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from random import Random
from threading import Event, Thread
from time import monotonic, sleep

import httpx

from app.framing.protocol import message_identifier
from tests.faults.divided import SOON, Faults, killed, shared
from tests.faults.judging import Verdict
from tests.support.division import TOPIC, Division
from tests.support.gateway import GatewayProcess
from tests.support.mq import mq_destination, taken
from tests.support.mqi import environment, load
from tests.support.queue_manager import QueueManager
from tests.support.subscribe import subscribe

MOST = 80
"""The number of faults that one round draws, most of them kills."""
QUEUE, STATES = "SAS.REQUESTS", "GATEWAY.STATES"
QUEUED = f'framing = "sas_queue"\nstate_queue = "{STATES}"\nbatch_messages = 2\nretry_longest = "2s"\n'
PROCESSES = ("receive", "serve-a", "serve-b", "serve-c", "keep-a", "keep-b")
DESTINATION = """[destinations.partner]
transport = "mqtt"
framing = "sas_queue"
url = "mqtt://127.0.0.1:{port}"
topic = "{topic}"
retry_longest = "2s"
"""
READ = (
    "/v1/attachments?limit=20",
    "/v1/messages",
    "/v1/deliveries",
    "/v1/quarantine",
    "/v1/summary",
    "/v1/uploads",
    "/v1/webhooks",
    "/v1/pipeline",
    "/metrics",
)
READ_OF_ONE = ("", "/content", "/parts", "/timeline", "/physical-messages")
TUS = {"Tus-Resumable": "1.0.0"}


class Clients:
    """Clients that upload files in pieces and send them, each request to another replica.

    What was accepted is in `sent`: the digest of each file by its name.
    """

    def __init__(self, division: Division, seed: str) -> None:
        self._division, self._random = division, Random(f"clients {seed}")
        self._stop = Event()
        self.sent: dict[str, str] = {}
        self.deliveries: set[str] = set()
        self.hung: list[str] = []
        self.failures: set[str] = set()
        """Answers that say more than that the gateway is unavailable, or that something is gone."""
        self.statuses: list[int] = []
        """The status of each answer."""
        self._threads = [Thread(target=self._run), Thread(target=self._read, args=(Random(f"readers {seed}"),))]

    def __enter__(self) -> "Clients":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _read(self, random: Random) -> None:
        """Read what replicas have, each time another resource of another one."""
        paths = list(READ)
        while not self._stop.is_set():
            gateway = self._division[random.choice(PROCESSES[1:4])]
            with suppress(httpx.HTTPError), _client(gateway) as client:
                path = random.choice(paths)
                answer = self._checked(client.get(path))
                if path == READ[0] and answer.status_code == 200 and answer.json()["items"]:
                    item = random.choice(answer.json()["items"])["id"]
                    paths = [*READ, *(f"/v1/attachments/{item}{end}" for end in READ_OF_ONE)]
            sleep(0.1)

    def _checked(self, answer: httpx.Response) -> httpx.Response:
        """Return an answer, after a look at whether a failure is one that a client can wait for. Nothing is ever
        removed, so nothing may be gone."""
        self.statuses.append(answer.status_code)
        if answer.status_code in {410, *range(500, 600)} and not (
            answer.status_code == 503
            and answer.headers.get("content-type") == "application/problem+json"
            and answer.headers.get("retry-after", "").isdecimal()
        ):
            asked = f"{answer.request.method} {answer.request.url.path}"
            self.failures.add(f"{asked}: {answer.status_code} {answer.headers} {answer.text[:300]}")
        return answer

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            name, content = f"file-{number}.bin", self._random.randbytes(self._random.randrange(1, 200_000))
            try:
                self._send(name, content)
            except TimeoutError:
                self.hung.append(f"{name} could not be sent for {SOON:.0f} s")
                return

    def _ask(self, request: Callable[[httpx.Client], httpx.Response], wanted: set[int]) -> httpx.Response:
        """Repeat a request, at any replica, until one answers with a wanted status."""
        end = monotonic() + SOON
        while monotonic() < end:
            gateway = self._division[self._random.choice(PROCESSES[1:4])]
            with suppress(httpx.HTTPError), _client(gateway) as client:
                answer = self._checked(request(client))
                if answer.status_code in wanted:
                    return answer
            sleep(0.05)
        raise TimeoutError

    def _send(self, name: str, content: bytes) -> None:
        headers = {**TUS, "Upload-Length": str(len(content))}
        path = str(self._ask(lambda http: http.post("/v1/uploads", headers=headers), {201}).headers["location"])
        while (at := self._offset(path)) < len(content):
            piece = content[at : at + self._random.randrange(1, 80_000)]
            head = {**TUS, "Upload-Offset": str(at), "Content-Type": "application/offset+octet-stream"}
            self._ask(partial(_patch, path, piece, head), {204, 409})
        entry = {"part": "f", "kind": "binary-file", "name": name}
        destination = self._random.choice(("partner", "queue"))
        message = {"destination": destination, "uploads": {"f": path.rpartition("/")[2]}, "attachments": [entry]}
        key = {"Idempotency-Key": name}
        answer = self._ask(lambda http: http.post("/v1/messages", json=message, headers=key), {202})
        self.deliveries.add(answer.json()["id"])
        self._ask(lambda http: http.delete(path, headers=TUS), {204, 404})  # a client may have 200 uploads
        if destination == "partner":
            self.sent[name] = sha256(content).hexdigest()

    def _offset(self, path: str) -> int:
        return int(self._ask(lambda http: http.head(path, headers=TUS), {200}).headers["upload-offset"])


def _client(gateway: GatewayProcess) -> httpx.Client:
    """Return a client with a new connection. It needs no certificates, which take long to be read."""
    return httpx.Client(base_url=gateway.client.base_url, timeout=5, verify=False)


def _patch(path: str, piece: bytes, headers: dict[str, str], http: httpx.Client) -> httpx.Response:
    return http.patch(path, content=piece, headers=headers)


def _is_served(http: httpx.Client, path: str) -> bool:
    return http.get(path).status_code == 200


def run(seed: str, folder: Path, count: int | None = None) -> Verdict:
    """Run the scenario with this number of faults, or with each kind once."""
    with ExitStack() as ending:
        common = ending.enter_context(shared(folder, "replicas", environment("pymqi")))
        subscribe(common.broker.port, "sas", TOPIC, "5")
        manager = ending.enter_context(QueueManager(folder / "queue-manager"))
        for queue in (QUEUE, STATES):
            manager.define(queue, maxdepth=1_000_000)
        destination = DESTINATION.format(port=common.broker.port, topic=TOPIC)
        destination += mq_destination("queue", manager, QUEUE, QUEUED)
        division = Division(folder, common.cluster.folder, common.bucket, common.broker, common.forks, destination)
        ending.callback(division.stop)
        for name in PROCESSES:
            division.begin(name)
        more = {"queue manager killed": partial(killed, manager)}
        faults = Faults(division, common, Random(f"replicas {seed}"), paused=("serve", "keep"), more=more)
        with Clients(division, seed) as clients:
            notes, hung = faults.occur(count)
        return _judged(division, clients, manager, notes, [*hung, *clients.hung])


def _judged(division: Division, clients: Clients, manager: QueueManager, notes: list[str], hung: list[str]) -> Verdict:
    """Wait until all that was accepted is there, and compare it with what was sent."""
    serving = [division[name] for name in PROCESSES if name.startswith("serve")]
    end = monotonic() + SOON

    def finished() -> Counter[str]:
        return Counter(item["name"] for item in serving[0].listing("/v1/attachments", state="finished"))

    def is_over() -> bool:
        states = {item["id"]: item["state"] for item in serving[1].listing("/v1/deliveries")}
        return (
            all(states.get(each) == "sent" for each in clients.deliveries) and finished().keys() >= clients.sent.keys()
        )

    while not is_over() and monotonic() < end:
        sleep(0.5)
    listed, wrong = finished(), []
    lost = [f"{name} was accepted and is not there" for name in clients.sent if not listed[name]]
    twice = [f"{name} is there {number} times" for name, number in listed.items() if number > 1]
    twice += [f"{name} was never accepted" for name in listed if name not in clients.sent]
    put = Counter(bytes(descriptor.MsgId) for descriptor, _ in taken(load("pymqi"), manager, QUEUE))
    expected = {
        message_identifier(item["id"], number)
        for item in serving[1].listing("/v1/deliveries", destination="queue")
        for number in range(item["messages_total"])
    }
    lost += [f"message {each.hex()} is not on the queue" for each in expected - put.keys()]
    twice += [f"message {each.hex()} was put {number} times" for each, number in put.items() if number > 1]
    twice += [f"message {each.hex()} belongs to nothing" for each in put.keys() - expected]
    for number, item in enumerate(serving[0].listing("/v1/attachments", state="finished")):
        gateway = serving[number % len(serving)]
        path = f"/v1/attachments/{item['id']}/content"
        gateway.until(partial(_is_served, gateway.client, path))
        if sha256(gateway.client.get(path).content).hexdigest() != clients.sent.get(item["name"]):
            wrong.append(f"{item['name']} has other bytes at {gateway.folder.name}")
    states = Counter(item["state"] for item in serving[2].listing("/v1/deliveries"))
    if states.keys() - {"sent"}:
        hung.append(f"deliveries: {dict(states)}")
    wrong += sorted(clients.failures)
    counted = ", ".join(f"{count} of {status}" for status, count in sorted(Counter(clients.statuses).items()))
    files = f"{len(clients.sent)} of {len(clients.deliveries)} files came back; {put.total()} messages are on the queue"
    told = (f"{files}; answers: {counted}", *notes, *lost, *twice, *wrong, *hung)
    return Verdict(len(notes), len(lost), len(twice), len(wrong), len(hung), 0, told)

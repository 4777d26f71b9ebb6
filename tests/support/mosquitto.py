"""A private Mosquitto on a free port."""

import os
import shutil
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from random import SystemRandom
from types import TracebackType

from app.testing.waiting import until

PROGRAM = shutil.which("mosquitto", path=os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin")))


def free_port() -> int:
    """Return a free TCP port of the loopback interface that no other program gets meanwhile, also while the program at
    it is started again: the system gives only those from 32768 on."""
    while True:
        port = SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Mosquitto:
    """A broker that discards nothing: it has no limit of queued or unacknowledged messages, nor, without `settings`, of
    the size of packets (Mosquitto 2.1 has one of 2,000,000 bytes).

    With `persistent` it keeps sessions and messages over `stop` and `start`, if it is stopped in order.
    """

    def __init__(self, folder: Path, *, persistent: bool = False, settings: str = "") -> None:
        self.port = free_port()
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._configuration = folder / "mosquitto.conf"
        self._configuration.write_text(
            f"listener {self.port} 127.0.0.1\n"
            "allow_anonymous true\n"
            "max_inflight_messages 0\n"
            "max_queued_messages 0\n"
            "set_tcp_nodelay true\n"
            "user root\n"
            f"persistence {str(persistent).lower()}\n"
            f"persistence_location {folder}/\n"
            f"{'' if 'max_packet_size' in settings else 'max_packet_size 268435455'}\n"
            f"{settings}"
        )

    def __enter__(self) -> "Mosquitto":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Return when the broker accepts connections."""
        if PROGRAM is None:
            raise FileNotFoundError("mosquitto is not installed")
        with (self._folder / "mosquitto.log").open("ab") as log:
            self._process = subprocess.Popen(
                [PROGRAM, "-c", str(self._configuration)], stdout=log, stderr=subprocess.STDOUT
            )
        until(self._accepts, timeout=10)

    def stop(self) -> None:
        """Stop the broker in order; a persistent one saves its state."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            terminate(self._process)
            self._process = None

    def kill(self) -> None:
        """Kill the broker at once; it keeps only what it has saved."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(60)
        self._process = None

    def reload(self) -> None:
        """Have the broker read its files again. It ends connections whose password is no longer right."""
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    def pause(self) -> None:
        """Pause the broker: connections stay open, and it answers nothing until `resume`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _accepts(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError((self._folder / "mosquitto.log").read_text())
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False


def terminate(broker: "subprocess.Popen[bytes]") -> None:
    """Return when a broker has ended in order. It forgets a SIGTERM that comes right after it opened its port."""

    def has_ended() -> bool:
        broker.terminate()
        return broker.poll() is not None

    until(has_ended, timeout=20)

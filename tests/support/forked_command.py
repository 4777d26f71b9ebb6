"""The command line without the seconds that its imports take: each command is a fork of a process that has made them.

python -m tests.support.forked_command SOCKET

The process takes, at a Unix socket, the arguments, the folder and the environment of a command, as a line of JSON, with
its three standard files. It answers with the command's process, and at its end with its exit status. Who asked passes
signals on; when it is gone, the command is killed. The process ends when its standard input ends.
"""

import atexit
import gc
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

_ROOT = Path(__file__).parents[2]
_MOST = 1 << 20
_CLIENT = """#!{python} -ISE
import json, os, signal, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({path!r})
    asked = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [asked + b"\\n"], [0, 1, 2])
    command = int.from_bytes(server.recv(4), "big")
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda number, _: os.kill(command, number))
    status = server.recv(1)
os._exit(status[0] if status else 1)
"""


@cache
def program() -> Path:
    """Return the path of a program `attachment-gateway`, which all tests of this process share."""
    # Not a TemporaryDirectory: from Python 3.13, a child of multiprocessing forgets what was registered for the end of
    # its parent, and the folder would be deleted with the object.
    folder = Path(mkdtemp(prefix="commands-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = f"{folder}/socket"
    command = [sys.executable, "-m", "tests.support.forked_command", path]
    process = subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(process.communicate)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    client = folder / "attachment-gateway"
    client.write_text(_CLIENT.format(python=sys.executable, path=path))
    client.chmod(0o755)
    return client


def _answer(path: str) -> None:
    import tests.support.forked_gateway_imports  # noqa: F401, PLC0415 - only in the process to be forked

    gc.collect()
    gc.freeze()  # forks share what is there, and do not search it for garbage

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests; the program sets its own handler
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(16)
        print("ready", flush=True)  # noqa: T201
        while sys.stdin not in (ready := select.select([server, sys.stdin], [], [])[0]):
            assert ready
            connection, _ = server.accept()
            if not os.fork():
                server.close()
                _attend(connection)
                return
            connection.close()


def _attend(connection: socket.socket) -> None:
    """Run the command that is asked for in a process of its own, and answer with its exit status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    asked, files, *_ = socket.recv_fds(connection, _MOST, 3)
    while not asked.endswith(b"\n"):
        if not (more := connection.recv(_MOST)):
            os._exit(1)  # who asked is gone
        asked += more
    child = os.fork()
    if not child:
        connection.close()
        arguments, folder, environment = json.loads(asked)
        _run(arguments, folder, environment, files)
        return
    connection.send(child.to_bytes(4, "big"))
    ended = os.pidfd_open(child)
    if ended not in select.select([ended, connection.fileno()], [], [])[0]:
        os.kill(child, signal.SIGKILL)
    else:
        _, status = os.waitpid(child, 0)
        connection.send(bytes([os.waitstatus_to_exitcode(status) & 0xFF]))
    os._exit(0)


def _run(arguments: list[str], folder: str, environment: dict[str, str], files: list[int]) -> None:
    from app.cli import main  # noqa: PLC0415 - imported before, by `_answer`

    for at, file in enumerate(files):
        os.dup2(file, at)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["attachment-gateway", *arguments]
    main()


if __name__ == "__main__":
    _answer(sys.argv[1])

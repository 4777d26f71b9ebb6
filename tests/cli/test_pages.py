"""Every command that README.md and the pages of docs print is run as it is printed, or listed here with the reason.

They run against a gateway as `make run` starts it, in a folder with the files that the pages mention. Their program is
that of tests.support.forked_command.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import httpx
import pytest

from app.cli import demo_steps
from app.codecs.ibm_mq.image import write_image
from app.testing.waiting import until
from tests.support.built import shop
from tests.support.captures import in_hexadecimal, packet, unloaded
from tests.support.define_xml import define_xml
from tests.support.forked_command import program
from tests.support.pages import ROOT, Command, commands
from tests.support.readstat import Written, write_sas7bcat, write_sas7bdat
from tests.support.sas_client import Program, message, text_file
from tests.support.terminal import InTerminal

pytestmark = pytest.mark.process

PROGRAM = Path(sys.executable).parent / "attachment-gateway"
CONNACK = bytes.fromhex("2003000000")

NOT_RUN: Sequence[tuple[str, str, str]] = (
    # page, command (both as regular expressions of the whole), reason
    (".*", "make run", "installs everything; `demo`, which it runs then, is what these tests start"),
    (
        ".*",
        "make pipeline",
        "installs everything; tests/cli/test_pipelining.py runs `pipeline demo`, which it runs then",
    ),
    (".*", "make (test|faults|cluster).*", "runs this suite, the fault campaign or a whole cluster, for minutes"),
    (
        "docs/faults.md",
        r"python -m tests\..*",
        "runs from the checkout; tests/service/test_publishing_schedules.py runs the same",
    ),
    (".*", "make environment.*", "packs all of Spark; needs a cluster to be of use"),
    (".*", r"(.|\n)*spark-submit(.|\n)*", "needs a Spark cluster"),
    (".*", r"(.|\n)*k8s://(.|\n)*", "needs Kubernetes"),
    (".*", r"attachment-gateway pipeline (batch|stream) .*", "needs Java; tests/cli/test_pipelining.py runs both"),
    (
        "docs/spark.md",
        "attachment-gateway tables sql .* --tables result/tables",
        "needs the result of the batch before it",
    ),
    (".*", r"docker (build|run) (.|\n)*", "needs Docker, and a registry with its images"),
    (".*", "make (release|verify) .*", "installs everything; tests/test_release.py runs both"),
    ("docs/releasing.md", "make upgrades", "makes data for a minute, with Spark, and writes into the repository"),
    ("docs/releasing.md", "openssl .*", "asks for a passphrase"),
    ("docs/installing.md", r"cosign (.|\n)*", "needs cosign, and a release that is signed"),
    ("docs/installing.md", "(pipx|uv tool|pip) install .*", "needs a package index"),
    ("docs/installing.md", "(mkdir|cp|python3) .*", "tests/test_packaging.py runs these"),
    (
        "docs/installing.md",
        "make wheel",
        "installs everything; tests/test_packaging.py builds the package and installs it",
    ),
    ("docs/installing.md", "python3.11 -m venv /opt/gateway", "writes outside of the test's folder"),
    (
        "docs/installing.md",
        "/opt/gateway/bin/pip install .*",
        "needs a package index; tests/test_packaging.py installs the package",
    ),
    (".*", "(mkdir -p /opt/mqm && )?tar -xzf .*-IBM-MQC-Redist-LinuxX64.*", "needs IBM's MQ client"),
    (".*", "(MQ_FILE_PATH=/opt/mqm )?pip install (pymqi|ibmmq)", "needs IBM's MQ client, and a package index"),
    (".*", "export LD_LIBRARY_PATH=/opt/mqm/lib64", "needs IBM's MQ client"),
    (".*", "(setmqaut|dmpmqmsg) .*", "a command of IBM MQ"),
    ("docs/conformance-ibm-mq.md", "export MQ_.*", "needs a queue manager"),
    ("docs/ibm-mq.md", "attachment-gateway serve .*", "needs a machine without IBM's MQ client"),
    ("docs/using.md", "attachment-gateway serve --config gateway.toml", "needs the example's broker and its secrets"),
    (
        "docs/(processes|scaling).md",
        "attachment-gateway serve --config gateway.toml --role .*",
        "needs PostgreSQL and an object store; tests/end_to_end/test_roles.py and test_receiving_together.py run these",
    ),
    (
        "docs/scaling.md",
        "attachment-gateway receivers leave JOURNAL",
        "needs several receivers; tests/web/test_receivers.py runs it",
    ),
    (
        "docs/scaling.md",
        "attachment-gateway journal give-up 7 .*",
        "needs a segment that is lost; tests/end_to_end/test_joining.py runs it",
    ),
    ("docs/scaling.md", "export ATTACHMENT_GATEWAY_.*", "is for the command after it"),
    (
        "docs/scaling.md",
        r"mosquitto_sub (.|\n)*",
        "tests/adapters/mqtt/test_groups.py runs two of these",
    ),
    (
        "docs/spark.md",
        r"(.|\n)*attachment-gateway serve --role serve",
        "serves until Ctrl-C; tests/cli/test_pipelining.py runs it",
    ),
    ("docs/using.md", "attachment-gateway watch", "never ends; tests/cli/test_terminal.py runs it"),
    ("docs/using.md", r"(ID=\$\()?curl .*", "tests/cli/test_using.py runs these"),
    ("docs/rendezvous.md", "python -m tests.support.rendezvous_daemon .*", "tests/cli/test_using.py runs these"),
    ("docs/rendezvous.md", "attachment-gateway serve --config rendezvous.toml &", "tests/cli/test_using.py runs these"),
    ("docs/rendezvous.md", "attachment-gateway send README.md --to rv .*", "tests/cli/test_using.py runs these"),
    ("docs/tables.md", "attachment-gateway tables .*", "tests/cli/test_tables_docs.py runs these and compares"),
    ("docs/tutorial.md", r"(.|\n)*", "tests/cli/test_tutorials.py runs these and compares"),
    ("docs/python-client.md", "pip install ./clients/python", "tests/test_packaging.py installs the wheel"),
    ("docs/python-client.md", "python client.py", "tests/cli/test_tutorials.py runs this and compares"),
    ("docs/(access|mcp).md", "attachment-gateway (keys|audit)( .*)?", "tests/cli/test_keys.py runs both"),
    ("docs/mcp.md", "attachment-gateway mcp .*", "needs mcp = true; tests/cli/test_mcp_bridge.py runs these"),
    ("docs/access.md", "curl .*/v1/links(.|\n)*", "tests/web/test_links.py makes links"),
    (
        "docs/(installing|kubernetes|scaling).md",
        "helm (install|push|template|test|upgrade) .*",
        "needs helm and Kubernetes; tests/test_chart.py reads the chart",
    ),
    ("docs/(kubernetes|scaling).md", r"kubectl (.|\n)*", "needs Kubernetes"),
    ("docs/framings.md", "(pip install|pytest) .*", "tests/test_example_package.py installs the package and tests it"),
    ("docs/webhooks.md", "attachment-gateway webhooks (dead|replay) .*", "needs a webhook; tests/web/test_webhooks.py"),
    (
        "docs/receipts.md",
        r"(openssl|(ID=\$\()?attachment-gateway) .*",
        "needs a gateway with a key; tests/end_to_end/test_receipts.py runs these",
    ),
    ("docs/events.md", "curl -N .*", "never ends; tests/web/test_events.py reads the events after a number"),
    (
        "docs/formats.md",
        "attachment-gateway get .* --labels .*",
        "needs value labels; tests/cli/test_profiling.py has some",
    ),
)

IN_PLACE_OF = {
    "9f2c4b1e0d5a4c3b8e7f6a5d4c3b2a19": "$ID",
    "--to replies": "--to demo",
    "destination=replies": "destination=demo",
    "http://gateway.example:8080": "http://127.0.0.1:8080",
    "/etc/gateway/tokens": "tokens",
    "s3://backups/gateway": "backups",
    "/run/secrets/": "",
    "/var/lib/new": "new",
    "curl ": "curl --fail -sS --max-time 60 ",
}
"""What the examples name, and what is there in place of it."""

FAILING = {
    "attachment-gateway journal import broken.txt --to other": 1,
    "attachment-gateway get $ID -o pupils.xlsx": 1,
    "curl -T report.txt -H 'Repr-Digest: sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:'"
    " http://127.0.0.1:8080/v1/files/demo/": 22,
    "curl -X POST http://127.0.0.1:8080/v1/deliveries/d6c864578632e1a39bfbf24b6c859903/cancel": 22,
}
"""Exit statuses of the commands that pages show to fail."""

STOPPED = ("attachment-gateway fsck --repair", "attachment-gateway rebuild")
"""Commands for which the gateway must be stopped. They ask for confirmation in a terminal."""

REPAIR = "docs/repair.md"


def listed(command: Command) -> list[str]:
    """The entries of the table for a command."""
    return [
        f"{page} {text}"
        for page, text, _ in NOT_RUN
        if re.fullmatch(page, command.page) and re.fullmatch(text, command.plain)
    ]


RUN = [command for command in commands() if not listed(command)]
PAGES = sorted({command.page for command in RUN}, key=lambda page: (page == REPAIR, page))


class Demo(NamedTuple):
    """A gateway as `make run` starts it."""

    process: "subprocess.Popen[bytes]"
    url: str
    data: Path

    def identifier(self, name: str, of: str = "id") -> str:
        """The identifier of an attachment, or of its message."""
        asked = {"name": name, "state": "finished"}
        items = httpx.get(f"{self.url}/v1/attachments", params=asked, timeout=60).json()["items"]
        return str(items[-1][of])

    def present(self) -> dict[str, str]:
        """What is there in place of the address and the identifiers that the pages print."""
        delivery = httpx.get(f"{self.url}/v1/deliveries", timeout=60).json()["items"][0]["id"]
        return {
            "http://127.0.0.1:8080": self.url,
            "d6c864578632e1a39bfbf24b6c859903": delivery,
            "cd5951380a6a2b900126a5979186e64c": self.identifier("STATIONS", "message"),
        }

    def transport_file(self, name: str) -> bytes:
        url = f"{self.url}/v1/attachments/{self.identifier(name)}/content"
        return httpx.get(url, params={"format": "xpt-v5"}, timeout=60).raise_for_status().content

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(60)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    folder = tmp_path_factory.mktemp("demo")
    output = folder / "output"
    with output.open("w") as said:
        process = subprocess.Popen(
            [program(), "demo", "--data", folder / "data"], stdout=said, stderr=subprocess.STDOUT
        )
    try:
        until(lambda: "Ctrl-C ends this" in output.read_text() or process.poll() is not None, 120)
        found = re.search(r"gateway +(http://\S+)", output.read_text())
        assert found is not None, output.read_text()
        shutil.copytree(shop(tmp_path_factory.mktemp("shop")).folder, folder / "data" / "tables", dirs_exist_ok=True)
        started = Demo(process, found[1], folder / "data")
        yield started
        started.stop()
    finally:
        process.kill()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files that pages mention."""
    text, picture, table = demo_steps.write_files(tmp_path)
    text.rename(tmp_path / "report.txt")
    picture.unlink()
    assert table.name == "stations.parquet"
    shutil.copy(ROOT / "README.md", tmp_path)
    (tmp_path / "sales.csv").write_text("DT,C,X,ZIP\n2026-11-21,abc,1.5,007\n2026-11-22,de,.A,08001\n")
    variables = [Written("NAME", 8), Written("SEX", 1), Written("AGEGR", format="AGEF.")]
    write_sas7bdat(tmp_path / "adsl.sas7bdat", variables, [("Ann", "F", 1.0), ("Bob", "M", ".A")], table="ADSL")
    write_sas7bcat(tmp_path / "formats.sas7bcat", {"AGEF": {1.0: "under 12", 2.0: "12 and older"}})
    (tmp_path / "define.xml").write_text(define_xml().replace("PUPILS", "ADSL"))
    iris = [Written("Sepal_Length"), Written("Species", 6)]
    write_sas7bdat(tmp_path / "iris.sas7bdat", iris, [(5.1, "setosa"), (7.0, "versic")], table="IRIS")
    program = Program(Random(3))
    messages = message(program, [text_file(program, "notes.txt", b"one\ntwo\n")])
    (tmp_path / "queue.unl").write_bytes(unloaded(messages))
    (tmp_path / "queue.txt").write_bytes(unloaded(messages))
    (tmp_path / "broken.txt").write_bytes(re.sub(rb"(?m)^A CCS .*$", b"A CCS UTF-8", unloaded(messages)))
    (tmp_path / "packets.hex").write_bytes(in_hexadecimal([CONNACK, *(packet(each, "5") for each in messages)]))
    (tmp_path / "messages").mkdir()
    for number, each in enumerate(messages):
        (tmp_path / "messages" / f"{number:03}").write_bytes(write_image(each))
    return tmp_path


def order_packets() -> str:
    """Two packets of the SAP DB order interface in hexadecimal, as docs/using.md has them traced."""
    vectors = json.loads((ROOT / "tests" / "vectors" / "sapdb" / "sapdb_kernel_packets.json").read_text())["vectors"]
    packets = [each for each in vectors if each["name"].startswith("seed_ex1_")]
    return "".join(f"{each['direction']} {each['hex']}\n" for each in packets)


def environment(page: str, demo: Demo) -> dict[str, str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("ATTACHMENT_GATEWAY_")}
    return known | {
        "PATH": f"{program().parent}:{PROGRAM.parent}:{os.environ['PATH']}",
        "ATTACHMENT_GATEWAY_URL": demo.url,
        "ATTACHMENT_GATEWAY_DATA": str(demo.data),
        "ID": demo.identifier("welcome.txt" if page == "docs/files.md" else "STATIONS"),
    }


def script(page: str, demo: Demo) -> str:
    """The commands of a page that run beside a gateway, each announced by its text."""
    lines = []
    names = IN_PLACE_OF | demo.present()
    for each in (each for each in RUN if each.page == page and each.plain not in STOPPED):
        text = each.plain
        for printed, present in names.items():
            text = text.replace(printed, present)
        if status := FAILING.get(each.plain):
            text = f"{text} || [ $? = {status} ]"
        lines.append(f"cat >&2 <<'END'\n$ {each.plain}\nEND\n{text}")
    return "\n".join(lines)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is missing: the pages' commands are not tried")
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_work_as_printed(demo: Demo, folder: Path, page: str) -> None:
    known = environment(page, demo)
    if page == "docs/using.md":
        (folder / "packets.hex").write_text(order_packets())
    if page == "docs/sas.md":
        (folder / "stations.xpt").write_bytes(demo.transport_file("STATIONS"))
    done = subprocess.run(
        ["sh", "-e", "-c", script(page, demo)],
        cwd=folder,
        env=known,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    if page == REPAIR:
        demo.stop()
        for command in (each.plain for each in RUN if each.page == page and each.plain in STOPPED):
            with InTerminal([PROGRAM, *command.split()[1:]], 120, known) as terminal:
                until(lambda terminal=terminal: terminal.process.poll() is not None or _answered(terminal))  # type: ignore[misc]
                lines = terminal.end()
            assert terminal.process.returncode == 0, lines


def _answered(terminal: InTerminal) -> bool:
    if any("[y/N]" in line for line in terminal.lines):
        terminal.type("y\n")
        return True
    return False


def test_the_table_has_no_entry_without_a_command() -> None:
    used = {entry for command in commands() for entry in listed(command)}
    assert {f"{page} {text}" for page, text, _ in NOT_RUN} == used
    assert all(len(listed(command)) <= 1 for command in commands())


def test_commands_are_found_in_pages() -> None:
    found = list(commands())
    assert Command("docs/repair.md", "attachment-gateway rebuild") in found
    assert sum(each.page == "docs/using.md" for each in found) > 15
    assert any("\\\n" in each.text for each in found), "a command of several lines"

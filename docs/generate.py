"""Generated pages of this folder. Write them with `python -m docs.generate`."""

from collections.abc import Callable
from functools import partial
from inspect import getdoc
from pathlib import Path

import yaml

from app.assembly.states import TRANSITIONS, Input, diagram
from app.codecs.ibm_mq.headers import MQDLH, MQMD1, MQMD2, MQMDE, MQRFH, MQRFH2, MQXQH
from app.codecs.mqtt.packets import FixedHeader
from app.codecs.sapdb.packet_records import (
    ApplicationParameter,
    CommandSegment,
    LongDescriptor,
    PacketHeader,
    ParameterInfo,
    Parsid,
    PartHeader,
    ReturnSegment,
    VardataParameterInfo,
)
from app.codecs.sapdb.part_buffers import SessionInfo
from app.codecs.sas.attachment_messages import AttachmentEntry, AttachmentHeader, Count
from app.codecs.sas.data_set_messages import (
    ConstraintMessage,
    DataSetDefinition,
    Index,
    IndexMessage,
    ObservationMessage,
    Variable,
    VariableMessage,
)
from app.codecs.sas.file_messages import FileDescriptionMessage
from app.codecs.sas.rendezvous_messages import RendezvousDefinition, RendezvousHeader
from app.model.attachment import AttachmentState
from app.tables.xpt.xpt_layouts import (
    HeaderRecord,
    Label8,
    Label9,
    LabelRecord,
    LibraryRecord,
    MemberRecord5,
    MemberRecord8,
    ModifiedRecord,
    Namestr5,
    Namestr8,
)
from app.web import problems
from app.wire import Layout
from docs import (
    alerts,
    chart_schema,
    client_library,
    dashboards,
    performance,
    pictures,
    references,
    rest_reference,
    settings_reference,
)

FOLDER = Path(__file__).parent

LAYOUTS: dict[str, tuple[str, dict[str, tuple[type[Layout], ...]]]] = {
    "layouts-sas.md": (
        "SAS attachments",
        {
            "SAS Common Messaging Interface, attachments on a queue": (
                AttachmentHeader,
                AttachmentEntry,
                Count,
                FileDescriptionMessage,
                DataSetDefinition,
                VariableMessage,
                Variable,
                ObservationMessage,
                IndexMessage,
                Index,
                ConstraintMessage,
            ),
            "SAS Common Messaging Interface, attachments on TIB/Rendezvous": (RendezvousHeader, RendezvousDefinition),
        },
    ),
    "layouts-transport-files.md": (
        "SAS transport files",
        {
            "SAS transport files": (
                HeaderRecord,
                LibraryRecord,
                ModifiedRecord,
                MemberRecord5,
                MemberRecord8,
                LabelRecord,
                Namestr5,
                Namestr8,
                Label8,
                Label9,
            ),
        },
    ),
    "layouts-brokers.md": (
        "IBM MQ and MQTT",
        {
            "IBM MQ": (MQMD1, MQMD2, MQMDE, MQDLH, MQXQH, MQRFH, MQRFH2),
            "MQTT": (FixedHeader,),
        },
    ),
    "layouts-order-packets.md": (
        "order packets",
        {
            "SAP DB order interface": (
                PacketHeader,
                CommandSegment,
                ReturnSegment,
                PartHeader,
                Parsid,
                ParameterInfo,
                VardataParameterInfo,
                ApplicationParameter,
                LongDescriptor,
                SessionInfo,
            ),
        },
    ),
}
"""By page: its subject, and the layouts of each specification."""


def layouts(page: str) -> str:
    """Return a page of the layouts by which messages are read, written and traced."""
    subject, specifications = LAYOUTS[page]
    pages = [
        f"# Layouts of {subject}\n",
        f"For developers, and for whoever reads a trace: the records of {subject}, as the code declares them.\n",
    ]
    if page == "layouts-sas.md":
        pages.append(
            "Byte order, width of `long`, the NUL rule and alignment depend on the sender's [dialect](dialects.md).\n"
        )
    for specification, tables in specifications.items():
        pages.append(f"## {specification}\n")
        for layout in tables:
            pages += [f"### {layout.__name__}\n", f"{getdoc(layout)}\n", f"{layout.table()}\n"]
    return "\n".join(pages)


def states() -> str:
    """Return the states of an attachment as a page: the transition table as a diagram and as a table."""
    heading = " | ".join(Input)
    rows = [
        f"| {state} | " + " | ".join(TRANSITIONS.get((state, happened), "") for happened in Input) + " |"
        for state in AttachmentState
    ]
    return "\n".join(
        [
            "# An attachment's life\n",
            "For developers and operators: the states of an attachment, and what leads from one to the next.\n",
            "```mermaid",
            f"{diagram()}```\n",
            "This table shows the state after each input. Inputs with an empty field are refused and change nothing.\n",
            f"| state | {heading} |",
            "|---" * (len(Input) + 1) + "|",
            *rows,
            "",
        ]
    )


def example() -> str:
    """Return the configuration file with every setting, which the command `config example` prints."""
    return (FOLDER / "gateway.toml").read_text()


def rules() -> str:
    """Return the alert rules as Prometheus reads them."""
    written: str = yaml.safe_dump(alerts.rules(), sort_keys=False, width=1000)
    return f"# Made by `make docs` of docs/alerts.toml.\n{written}"


PAGES: dict[str, Callable[[], str]] = {
    "codes.md": references.codes,
    "dialects.md": references.dialects,
    "events.md": references.events,
    **{page: partial(layouts, page) for page in LAYOUTS},
    "metrics.md": references.metrics,
    "problems.md": problems.table,
    "states.md": states,
    "../app/settings/example.toml": example,
    "../clients/python/src/attachment_gateway_client/schemas.py": client_library.types,
    "../clients/python/src/attachment_gateway_client/client.py": client_library.blocking_client,
    "../helm/files/alerts.yaml": rules,
    "../helm/values.schema.json": chart_schema.text,
    "alerts/index.md": alerts.index,
    **{f"alerts/{each.name}.md": partial(alerts.page, each) for each in alerts.ALERTS},
    **{f"../helm/files/{each.identifier}.json": partial(dashboards.text, each) for each in dashboards.DASHBOARDS},
    **performance.PAGES,
    **pictures.pages(),
    **rest_reference.pages(),
    **settings_reference.pages(),
}

if __name__ == "__main__":
    for name, write in PAGES.items():
        (FOLDER / name).parent.mkdir(exist_ok=True)
        (FOLDER / name).write_text(write())

"""Framings of other packages: loaded when they are asked for, and never instead of another one."""

import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from app.framing import registry
from app.framing.message_events import read_event
from app.framing.sas_queue import SAS_QUEUE
from app.model.errors import InvalidInputError
from app.model.message import PhysicalMessage
from app.model.records import FramingOptions
from app.pipeline.job.job import Job, open_job
from app.plugins import PluginError
from app.service.sending.framer import Framer
from app.service.sending.sending_errors import CannotSend
from app.settings import Settings
from app.testing.gateway_stages import service_context
from app.testing.outgoing_files import FILES, delivery

MODULE = "framing_of_a_stranger"
GOOD = """
from dataclasses import dataclass
from app.framing.protocol import Framing
from app.model.framing_facts import FramingTraits

@dataclass(frozen=True)
class Strange(Framing):
    traits: FramingTraits = FramingTraits("strange")

OBJECT = Strange()
"""
BROKEN = {
    "import no_such_library": "No module named 'no_such_library'",
    "1 / 0": "division by zero",
    "": "has no attribute 'OBJECT'",
    "OBJECT = 7": "'int' object has no attribute 'traits'",
    GOOD.replace('"strange"', '"other"'): "has the name 'other' in its traits",
}


@pytest.fixture(autouse=True)
def _declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entry points of a module that is not loaded yet, one of them with the name of a framing of the gateway."""
    names = ("strange", "sas_queue")
    found = {name: EntryPoint(name, f"{MODULE}:OBJECT", registry.GROUP) for name in names}
    monkeypatch.setattr(registry, "_declared", lambda: found)
    monkeypatch.setattr(registry, "FRAMINGS", dict(registry.FRAMINGS))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    registry._find_elsewhere.cache_clear()


def test_one_that_only_reads_sends_nothing(tmp_path: Path) -> None:
    (tmp_path / f"{MODULE}.py").write_text(GOOD)
    how = FramingOptions(32_000, "", 1208, 273, framing="strange")
    with service_context(tmp_path / "data") as context:
        made = replace(delivery(context, FILES[:1]), application_body=None)
        with pytest.raises(CannotSend, match="the framing strange carries no text files"):
            next(Framer(how, context.store).frame(made))
        with pytest.raises(CannotSend, match="the framing strange writes no messages"):
            next(Framer(how, context.store).frame(replace(made, attachments=())))
    sys.modules.pop(MODULE)


def test_it_is_loaded_when_it_is_asked_for_and_not_before(tmp_path: Path) -> None:
    (tmp_path / f"{MODULE}.py").write_text(GOOD)
    own = ["sas_queue", "mq_group", "sas_rendezvous", "order_packet", "file_transfer"]
    assert registry.framing_names() == [*own, "strange"]
    assert registry.framing("sas_queue") is SAS_QUEUE
    assert registry.find_framing("smoke") is None
    assert registry.default_framing("qload") == "sas_queue"
    assert MODULE not in sys.modules
    found = registry.find_framing("strange")
    assert found is not None
    assert found is sys.modules[MODULE].OBJECT is registry.framing("strange")
    assert registry.traits("strange").name == "strange"
    sys.modules.pop(MODULE)


@pytest.mark.parametrize(("module", "why"), BROKEN.items())
def test_one_that_cannot_be_loaded_is_named_with_the_reason_and_stops_nothing(
    tmp_path: Path, module: str, why: str
) -> None:
    (tmp_path / f"{MODULE}.py").write_text(module)
    with pytest.raises(registry.UnknownFraming) as refused:
        registry.framing("strange")
    assert str(refused.value).startswith(f"framing 'strange' ({MODULE}:OBJECT) ")
    assert why in str(refused.value)
    assert registry.find_framing("strange") is None
    with pytest.raises(InvalidInputError) as unread:
        read_event(PhysicalMessage("orders", "strange"), 0)
    assert unread.value.code == "unknown-framing"
    source = {"transport": "memory", "queue": "q", "framing": "sas_queue"}
    job = Job.of(Settings.model_validate({"data": tmp_path, "sources": {"orders": source}}), "j", in_place=False)
    job.settings.sources["orders"] = job.settings.sources["orders"].model_copy(update={"framing": "strange"})
    with pytest.raises(PluginError, match=r"source 'orders': framing 'strange' .*; install the package"):
        open_job(job)
    sys.modules.pop(MODULE, None)

"""The configuration: what it accepts, and that it tells everything that is wrong at once."""

import re
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from app import plugins
from app.model.validation import sentence
from app.settings import Role, Settings, SettingsError, load, microseconds
from tests.support import mqi
from tests.support.models import all_models

EXAMPLE = Path(__file__).parent.parent / "docs" / "gateway.toml"
SOURCE = '[sources.orders]\ntransport = "mqtt"\nurl = "mqtt://a"\ntopic = "t"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "gateway.toml"


def problems(file: Path, text: str) -> dict[str, str]:
    file.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load(file)
    return {problem.place: problem.why for problem in caught.value.problems}


def test_the_documented_example_says_the_defaults() -> None:
    example, defaults = load(EXAMPLE), Settings()
    assert example.model_copy(update={"sources": {}, "destinations": {}}) == defaults
    assert set(example.sources) == {"orders"}
    replies = example.destinations["replies"]
    left_out = {"transport", "options", "record_length"}
    for name, field in type(replies).model_fields.items():
        if name not in left_out:
            assert getattr(replies, name) == field.default, name


def test_the_documented_example_names_every_setting() -> None:
    text = EXAMPLE.read_text()
    for name, field in Settings.model_fields.items():
        section = field.annotation
        keys = getattr(section, "model_fields", {}) if name not in {"sources", "destinations"} else {}
        for key in keys:
            assert re.search(rf"^(# )?{key}(_file)? = ", text, re.MULTILINE), f"{name}.{key}"
    for options in (*load(EXAMPLE).sources.values(), *load(EXAMPLE).destinations.values()):
        for key in type(options.options).model_fields:
            assert re.search(rf"^(# )?{key}(_file)? = ", text, re.MULTILINE), key
    commented_in = re.sub(r"^# (\w+ = |\[)", r"\1", text, flags=re.MULTILINE)
    assert len(tomllib.loads(commented_in)["sources"]["orders"]) > len(tomllib.loads(text)["sources"]["orders"])


def test_a_file_may_begin_with_a_byte_order_mark(file: Path) -> None:
    file.write_text("[http]\nport = 8181\n", "utf-8-sig")
    assert load(file).http.port == 8181


def test_the_environment_wins_and_adds(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(SOURCE + "[http]\nport = 1\n")
    monkeypatch.setenv("ATTACHMENT_GATEWAY_HTTP__PORT", "8181")
    monkeypatch.setenv("ATTACHMENT_GATEWAY_SOURCES__ORDERS__URL", "mqtt://b")
    monkeypatch.setenv("ATTACHMENT_GATEWAY_DESTINATIONS__BACK__TRANSPORT", "mqtt")
    monkeypatch.setenv("ATTACHMENT_GATEWAY_DESTINATIONS__BACK__URL", "mqtt://c")
    monkeypatch.setenv("ATTACHMENT_GATEWAY_DESTINATIONS__BACK__TOPIC", "back")
    settings = load(file)
    assert settings.http.port == 8181
    assert settings.sources["orders"].options.model_dump()["url"] == "mqtt://b"
    assert settings.destinations["back"].options.model_dump()["topic"] == "back"


@pytest.mark.parametrize("text", ["12345", "1e5", "true", "null", "-5", "NaN", '"q"', "[1", "", "0x1f"])
def test_a_text_of_the_environment_stays_as_it_is(text: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers, lists and tables beside it are those that they are for."""
    file.write_text(SOURCE)
    given = {
        "VERSION": "5",
        "QOS": "2",
        "SESSION_EXPIRY": "7",
        "CONNECT_TIMEOUT": "2.5",
        "ANSWERS": "false",
        "TOPIC": '["a", "b/#"]',
        "USERNAME": "me",
        "PASSWORD": text,
        "CLIENT_ID": "007",
    }
    for name, value in given.items():
        monkeypatch.setenv(f"ATTACHMENT_GATEWAY_SOURCES__ORDERS__{name}", value)
    monkeypatch.setenv("ATTACHMENT_GATEWAY_ROLES", '["serve"]')
    monkeypatch.setenv("ATTACHMENT_GATEWAY_DESTINATIONS", '{"back": {"transport": "memory", "queue": "5"}}')
    settings = load(file)
    options: Any = settings.sources["orders"].options
    assert (options.version, options.qos, options.session_expiry, options.connect_timeout) == ("5", 2, 7, 2.5)
    assert (options.answers, options.topic, options.client_id) == (False, ["a", "b/#"], "007")
    assert (options.username.current, options.password.get_secret_value()) == ("me", text)
    assert settings.roles == {"serve"}
    assert settings.destinations["back"].options.model_dump()["queue"] == "5"
    monkeypatch.setenv("ATTACHMENT_GATEWAY_ROLES", "serve")
    monkeypatch.setenv("ATTACHMENT_GATEWAY_HTTP__PORT", "NaN")
    with pytest.raises(SettingsError) as refused:
        load(file)
    assert [problem.place for problem in refused.value.problems] == ["http.port", "roles"]


def test_every_error_is_told_at_once_with_its_place(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTACHMENT_GATEWAY_HTPP__PORT", "1")
    told = problems(
        file,
        """
        colour = "green"
        [http]
        port = 70000
        tokens = ["secret"]
        [journal]
        segment_age = "two moons"
        segment_bytes = "many"
        [sources.orders]
        transport = "mqtt"
        framing = "smoke"
        url = "http://broker"
        qoss = 1
        [sources.pigeons]
        transport = "pigeon"
        [destinations.back]
        transport = "mqtt"
        url = "mqtt://broker"
        body_limit = 1
        dialect = "middle-endian"
        """,
    )
    assert set(told) == {
        "ATTACHMENT_GATEWAY_HTPP__PORT",
        "colour",
        "http.port",
        "http.tokens.0",
        "journal.segment_age",
        "journal.segment_bytes",
        "sources.orders.framing",
        "sources.orders.url",
        "sources.orders.topic",
        "sources.orders.qoss",
        "sources.pigeons.transport",
        "destinations.back.body_limit",
        "destinations.back.dialect",
        "destinations.back.topic",
    }
    assert "two moons" in told["journal.segment_age"]
    assert told["http.tokens.0"] == "give a SHA-256, 64 hexadecimal digits"
    assert "mqtt" in told["sources.pigeons.transport"], "the known transports are listed"
    framings = "'sas_queue', 'mq_group', 'sas_rendezvous', 'order_packet' or 'file_transfer'"
    assert f"unknown framing 'smoke': use {framings}" in told["sources.orders.framing"]


def test_nothing_that_is_wrong_hides_anything_else(file: Path) -> None:
    """Neither an unknown transport, nor a file that cannot be read, nor one rule another one; nor a key the rules."""
    told = problems(
        file,
        """
        [sources.pigeons]
        transport = "pigeon"
        topik = "t"
        topic = "t"
        ccsid = 0
        [sources.nameless]
        topik = "t"
        [sources.orders]
        transport = "mqtt"
        url = "mqtt://broker"
        topic = "t"
        qos = 3
        keepalive = "often"
        cert_file = "/nowhere/cert"
        password = "hunter2"
        client_id_file = "/nowhere/id"
        ca_file_file = "/nowhere/ca"
        [sources.many]
        transport = "ibm_mq"
        queue = "q"
        backout_queue = "a b"
        channel = "C"
        user = "u"
        password_file = "/nowhere/password"
        certificate_label = "l"
        [[sources.many.queue_managers]]
        colour = 1
        password_file = "/nowhere/other"
        [http]
        port = 70000
        key_file = "/nowhere/key"
        """,
    )
    told.pop("sources.many.transport", None)  # where its library is missing, its keys are checked all the same
    assert set(told) == {
        "http",
        "http.port",
        "sources.pigeons.transport",
        "sources.pigeons.topik",
        "sources.pigeons.ccsid",
        "sources.nameless.transport",
        "sources.nameless.topik",
        "sources.orders",
        "sources.orders.qos",
        "sources.orders.keepalive",
        "sources.orders.client_id_file",
        "sources.orders.ca_file_file",
        "sources.many",
        "sources.many.backout_queue",
        "sources.many.password_file",
        "sources.many.queue_managers.0.colour",
        "sources.many.queue_managers.0.password_file",
    }
    rules = told["sources.orders"]
    assert "a password needs a username" in rules
    assert "cert_file and key_file come together" in rules
    assert told["sources.orders.qos"] == "unknown value 3; choose 0, 1 or 2"
    assert told["http.port"] == "70000 is too large; give at most 65,535"
    assert told["sources.many"].split("; ") == [
        "channel and connection come together: give both or neither",
        "certificate_label belongs to a cipher_spec",
    ], "nothing is said of the password, whose file is told"
    assert "hunter2" not in str(told)


WRONG: list[Any] = ["", "x", "\0", -1, 0, 10**30, 1.5, True, [], ["x"], {}, {"x": 1}, [{"x": 1}], "9" * 99]
OF_LIBRARIES = re.compile(
    r"Value error|Assertion failed|Input should|[Ii]nput |valid |Field required|Extra inputs|should (be|have|match)"
    r"|pydantic|unable to|<class|datetime\.|function-|lax-or-strict|\[type="
)


def test_no_sentence_has_words_of_a_library_or_shows_a_secret() -> None:
    """Each setting of each table with many values that it does not take."""
    sentences: set[tuple[str, str, str]] = set()
    for model in all_models():
        for name, field in model.model_fields.items():
            is_secret = "Secret" in str(field.annotation)
            for value in ["hunter2", ["hunter2"]] if is_secret else WRONG:
                try:
                    model.model_validate({name: value})
                except ValidationError as error:
                    sentences |= {
                        (f"{model.__name__}.{name}", str(value), sentence(each))
                        for each in error.errors()
                        if each["loc"][:1] == (name,)
                    }
    assert len(sentences) > 300
    for place, value, told in sentences:
        assert not OF_LIBRARIES.search(told), (place, value, told)
        assert "hunter2" not in told, place
        assert "does not have the form" not in told, place


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ('"250ms"', 0.25),
        ('"30s"', 30),
        ('"1h30m"', 5400),
        ('"7d"', 604800),
        ('"1.5 h"', 5400),
        ("90", 90),
        ('"90"', 90),
    ],
)
def test_durations(file: Path, written: str, seconds: float) -> None:
    file.write_text(f"[expiry]\nunfinished = {written}\n")
    unfinished = load(file).expiry.unfinished
    assert unfinished == timedelta(seconds=seconds)
    assert microseconds(unfinished) == int(seconds * 1_000_000)


@pytest.mark.parametrize("written", ['"5 weeks ago"', '"-1s"', "-1", '""', '"nan"', '"inf"', "1e300"])
def test_no_durations(file: Path, written: str) -> None:
    assert set(problems(file, f"[expiry]\nunfinished = {written}\n")) == {"expiry.unfinished"}


@pytest.mark.parametrize(("written", "size"), [('"1 MiB"', 1 << 20), ('"2MB"', 2_000_000), ("70000", 70_000)])
def test_sizes(file: Path, written: str, size: int) -> None:
    file.write_text(f"[journal]\nsegment_bytes = {written}\n")
    assert load(file).journal.segment_bytes == size


def test_secrets_come_from_files_and_are_never_shown(file: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("swordfish\n")
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{'ab' * 32}\n{'CD' * 32}\n")
    file.write_text(
        SOURCE + f'username = "u"\npassword_file = "{secret}"\n[http]\ntokens_file = "{tokens}"\n',
    )
    settings = load(file)
    assert settings.http.tokens == ["ab" * 32, "cd" * 32]
    password = settings.sources["orders"].options.model_dump()["password"]
    assert password.get_secret_value() == "swordfish"
    assert "swordfish" not in repr(settings)
    assert "swordfish" not in settings.model_dump_json()


def test_a_secret_is_given_once_and_can_be_read(file: Path, tmp_path: Path) -> None:
    twice = problems(file, SOURCE + 'username = "u"\npassword = "x"\npassword_file = "y"\n')
    assert twice == {"sources.orders.password_file": "give password or password_file, not both"}
    (place,) = problems(file, f'[catalog]\nurl_file = "{tmp_path / "none"}"\n')
    assert place == "catalog.url_file"


def test_a_missing_file_and_a_broken_one_are_told(tmp_path: Path, file: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load(tmp_path / "none.toml")
    (why,) = problems(file, "[http\n").values()
    assert "is not TOML" in why


def test_who_only_assembles_needs_no_client_library_and_no_secret(file: Path) -> None:
    source = '[sources.sas]\ntransport = "pigeon"\nccsid = 37\npassword_file = "/nowhere"\n'
    file.write_text(source + "[destinations.back]\ntransport = 'pigeon'\n")
    source_alone = load(file, transports=False).sources["sas"]
    assert (source_alone.transport, source_alone.ccsid) == ("pigeon", 37)
    assert set(problems(file, source)) == {"sources.sas.transport"}


def test_folders_follow_from_data(file: Path, tmp_path: Path) -> None:
    file.write_text(f'data = "{tmp_path}"\n')
    settings = load(file)
    assert settings.journal_folder == tmp_path / "journal"
    assert settings.catalog_url == f"sqlite:///{tmp_path}/catalog.sqlite"
    assert settings.content_url == f"file://{tmp_path}/content"
    assert settings.tables_url == f"file://{tmp_path}/tables"
    assert settings.pipeline_checkpoint == f"{tmp_path}/pipeline"


def test_segments_are_sealed_sooner_where_spark_assembles(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def segments(text: str) -> tuple[int, float]:
        file.write_text(text)
        journal = load(file).journal
        return journal.segment_bytes, journal.segment_age.total_seconds()

    assert segments('assembler = "embedded"') == (256 << 20, 3600)
    assert segments('assembler = "spark"') == (64 << 20, 5)
    assert segments('assembler = "spark"\n[journal]\nsegment_age = "1m"') == (64 << 20, 60)
    monkeypatch.setenv("ATTACHMENT_GATEWAY_JOURNAL__SEGMENT_BYTES", "1 MiB")
    assert segments('assembler = "spark"\n[journal]\nsegment_age = "1m"') == (1 << 20, 60)
    monkeypatch.setenv("ATTACHMENT_GATEWAY_ASSEMBLER", "spark")
    assert segments("") == (1 << 20, 5)


@pytest.mark.process
@pytest.mark.parametrize("kind", plugins.KINDS)
def test_every_adapter_that_is_declared_loads(kind: plugins.Kind) -> None:
    mqi.load("pymqi")
    for name in plugins.names(kind):
        assert plugins.load(kind, name) is not None


def test_a_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        value = "adapters.ibm_mq:plugin"

        @staticmethod
        def load() -> object:
            raise ModuleNotFoundError("No module named 'pymqi'", name="pymqi")

    monkeypatch.setattr(plugins, "_entry_points", lambda kind: {"ibm_mq": Broken})
    with pytest.raises(plugins.PluginError, match=r"the library 'pymqi': pip install 'pymqi<.*'  # the extra 'mq'$"):
        plugins.transport("ibm_mq")


def test_an_extra_that_names_another_one_says_what_both_install() -> None:
    how = plugins.how_to_install("pyspark")
    assert re.fullmatch(r"pip install 'deltalake<.*' 'duckdb<.*' .*'pyspark<.*'  # the extra 'pipeline'", how)
    assert "attachment-gateway" not in how


def test_only_load_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo and the tests make settings of their own, which no variable of a real gateway may change."""
    monkeypatch.setenv("ATTACHMENT_GATEWAY_DATA", "/var/lib/real")
    monkeypatch.setenv("ATTACHMENT_GATEWAY_SOURCES__REAL__TRANSPORT", "memory")
    monkeypatch.setenv("ATTACHMENT_GATEWAY_SOURCES__REAL__QUEUE", "q")
    own = Settings(data=Path("own"))
    assert (own.data, own.sources) == (Path("own"), {})
    assert (load().data, set(load().sources)) == (Path("/var/lib/real"), {"real"})


SHARED = '[catalog]\nurl = "postgresql+psycopg://database/gateway"\n'


def test_gateways_that_stand_by_need_a_shared_catalog(file: Path) -> None:
    file.write_text("[standby]\n" + SHARED)
    standby = load(file).standby
    assert standby is not None
    assert standby.duration == timedelta(seconds=15)
    assert "PostgreSQL" in problems(file, "[standby]\n")[""]
    found = problems(file, '[standby]\nduration = "500ms"\nlease = "gateway"\n' + SHARED)
    assert found.keys() == {"standby.duration", "standby.lease"}
    assert found["standby.lease"] == "no such setting"


PLACES = '[content]\nurl = "s3://bucket/content"\n[journal]\narchive_url = "s3://bucket/archive"\n'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("roles = []\n", "roles must name at least one of receive, serve, keep"),
        ('roles = ["keep"]\n', "roles keep need catalog.url of a PostgreSQL"),
        ('roles = ["serve", "receive"]\n', "roles receive, serve need catalog.url of a PostgreSQL"),
        ('roles = ["serve"]\n' + SHARED, "roles serve need content.url and journal.archive_url"),
        ('roles = ["receive"]\n' + SHARED + '[content]\nurl = "s3://b/c"\n', "roles receive need journal.archive_url"),
        ('assembler = "spark"\nroles = ["serve"]\n' + SHARED + PLACES, "roles serve need tables.url"),
    ],
)
def test_a_divided_gateway_needs_places_that_all_processes_reach(file: Path, text: str, why: str) -> None:
    assert why in problems(file, text)[""]


TOGETHER = SHARED + PLACES + "shared = true\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (PLACES + "shared = true\n", "journal.shared needs catalog.url of a PostgreSQL"),
        (SHARED + "[journal]\nshared = true\n", "journal.shared needs content.url and journal.archive_url"),
        (TOGETHER + "[standby]\n", "exclude each other"),
    ],
)
def test_receivers_with_one_journal_need_places_that_all_reach(file: Path, text: str, why: str) -> None:
    assert why in problems(file, text)[""]


@pytest.mark.process
def test_receivers_share_only_sources_whose_messages_have_no_order(file: Path) -> None:
    mqi.load("pymqi")
    numbered = '[sources.rv]\ntransport = "rendezvous"\nframing = "sas_rendezvous"\nsubject = "SAS"\n'
    over_mqtt = (
        '[sources.over]\ntransport = "mqtt"\nframing = "sas_rendezvous"\nurl = "mqtt://b"\ntopic = "$share/g/t"\n'
    )
    alone = '[sources.mq]\ntransport = "ibm_mq"\nqueue = "Q"\n'
    found = problems(file, TOGETHER + numbered + over_mqtt + alone)
    assert found.keys() == {"sources.rv", "sources.over", "sources.mq"}
    assert "sas_rendezvous are numbered in the order in which they arrive" in found["sources.rv"]
    assert found["sources.mq"].endswith("set exclusive = false")
    shared = '[sources.orders]\ntransport = "mqtt"\nurl = "mqtt://b"\ntopic = "$share/g/t"\n'
    file.write_text(TOGETHER + shared + alone + "exclusive = false\n")
    assert load(file).sources.keys() == {"orders", "mq"}
    file.write_text(SHARED + PLACES + numbered + alone)
    assert load(file).sources.keys() == {"rv", "mq"}, "a single receiver may have them"


def test_roles_come_from_the_command_line_the_environment_or_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('roles = ["keep"]\n' + SHARED + PLACES)
    assert load(file).roles == {Role.KEEP}
    monkeypatch.setenv("ATTACHMENT_GATEWAY_ROLES", '["serve", "keep"]')
    assert load(file).roles == {Role.SERVE, Role.KEEP}
    assert load(file, given={"roles": [Role.RECEIVE]}).roles == {Role.RECEIVE}
    monkeypatch.delenv("ATTACHMENT_GATEWAY_ROLES")
    assert {place.partition(".")[0] for place in problems(file, 'roles = ["web"]\n')} == {"roles"}


@pytest.mark.parametrize(
    ("second", "why"),
    [
        ('same_as = "lost"', "must name another source"),
        ('same_as = "second"', "must name another source"),
        ('same_as = "third"', "must name another source"),
        ('same_as = "orders"\nframing = "mq_group"', "has the framing mq_group"),
        ('same_as = "orders"\nccsid = 37', "ccsid of sources.orders"),
        ('same_as = "orders"\nframing = "sas_rendezvous"', "numbered by each source"),
    ],
)
def test_a_second_path_is_read_as_the_first(file: Path, second: str, why: str) -> None:
    others = "".join(f'[sources.{name}]\ntransport = "memory"\nqueue = "q"\n' for name in ("orders", "third"))
    others += 'same_as = "orders"\n'
    told = problems(file, f'{others}[sources.second]\ntransport = "memory"\nqueue = "q"\n{second}\n')
    assert [each for each in told.values() if why in each] == [*told.values()]


@pytest.mark.parametrize("topic", ['["a/+/#", "$file/+"]', '"a"'])
def test_topics_of_file_transfer_have_levels_for_its_commands(file: Path, topic: str) -> None:
    text = f'[sources.a]\ntransport = "mqtt"\nurl = "mqtt://b"\nframing = "file_transfer"\ntopic = {topic}\n'
    assert [why for why in problems(file, text).values() if "end with /#" in why]


def test_segments_are_sealed_early_where_other_processes_read_them(file: Path) -> None:
    file.write_text('roles = ["receive"]\n' + SHARED + PLACES)
    assert load(file).journal.segment_age == timedelta(seconds=5)
    file.write_text('roles = ["receive", "keep", "serve"]\n' + SHARED + PLACES)
    assert load(file).journal.segment_age == timedelta(hours=1)


def test_receipts_are_replied_only_where_they_are_made_and_allowed(file: Path) -> None:
    replying = f"{SOURCE}reply_receipts = true\n"
    assert any("request_missing_to must allow" in why for why in problems(file, replying).values())
    allowed = f'{replying}request_missing_to = "replies/#"\n'
    assert any("reply_receipts needs the table [receipts]" in why for why in problems(file, allowed).values())


def test_what_no_start_takes_is_told_with_all_others(file: Path) -> None:
    told = problems(
        file,
        """
        [content]
        url = "http://x/y"
        [journal]
        archive_url = "ftp://x"
        segment_age = true
        [catalog]
        url = "mysql://user:hunter2@x/y"
        [http]
        host = "999.1.1.1"
        cert_file = "/nowhere/cert"
        port = true
        connections = false
        stall_bytes = true
        mcp = true
        [limits]
        uploads = true
        [sources.orders]
        transport = "mqtt"
        url = "mqtt://broker"
        topic = "t"
        qos = true
        ccsid = true
        [traces]
        ratio = true
        enabled = true
        """,
    )
    numbers = ("journal.segment_age", "limits.uploads", "sources.orders.qos", "sources.orders.ccsid", "traces.ratio")
    assert {name for name, why in told.items() if why == "give a number, not true"} == {
        *numbers,
        "http.port",
        "http.stall_bytes",
    }
    assert told["http.connections"] == "give a number, not false"
    assert told["content.url"].startswith("unknown storage URL http://x/y; give a path, or a URL with file")
    assert told["journal.archive_url"].startswith("unknown storage URL ftp://x; ")
    assert told["catalog.url"] == "unsupported catalog database 'mysql': use sqlite or postgresql"
    assert "'999.1.1.1' does not appear to be an IPv4 or IPv6 address" in told["http.host"]
    assert told["http"] == "there is no file /nowhere/cert"
    assert "hunter2" not in f"{told}"


@pytest.mark.parametrize(
    ("table", "url", "why"),
    [
        ("content", "s3:///folder", "names no bucket"),
        ("content", "file://elsewhere/folder", "unknown storage URL"),
        ("catalog", "sqlite://", "a SQLite catalog needs a file"),
        ("catalog", "catalog.sqlite", "the URL of the catalog cannot be read"),
    ],
)
def test_a_url_must_name_a_place(file: Path, table: str, url: str, why: str) -> None:
    assert why in problems(file, f'[{table}]\nurl = "{url}"')[f"{table}.url"]


@pytest.mark.parametrize("url", ["folder", "/folder", "file:///folder", "s3://b/f", "gs://b", "az://c/f", "memory://x"])
def test_no_place_is_opened_by_settings(file: Path, url: str) -> None:
    file.write_text(f'[content]\nurl = "{url}"')
    assert load(file).content.url == url
    assert [each.name for each in file.parent.iterdir()] == [file.name]

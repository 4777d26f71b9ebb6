"""Random messages of every type, for properties and for counting."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from hypothesis import strategies as st

from app.codecs.sas import file_messages
from app.codecs.sas.data_set_messages import DataSetDefinition, Index, Variable
from app.codecs.sas.dialect import DIALECTS, Dialect
from app.model.attachment import AttachmentDefinition, AttachmentKind, MessageHeader
from app.wire.kinds import Buffer

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.$:\\/ -"

dialects = st.sampled_from(DIALECTS)
texts = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), max_size=40)
names = st.text(st.sampled_from(ALPHABET), min_size=1, max_size=32).filter(str.strip)
int32 = st.integers(-(1 << 31), (1 << 31) - 1)
counts = st.integers(0, (1 << 31) - 1)
correlids = st.binary(min_size=24, max_size=24)

headers = st.builds(
    MessageHeader,
    correlids,
    int32,
    correlids,
    correlids,
    st.lists(
        st.builds(
            AttachmentDefinition,
            st.sampled_from(AttachmentKind),
            st.binary(min_size=16, max_size=16),
            texts,
            texts,
            texts,
            int32,
            int32,
        ),
        max_size=4,
    ).map(tuple),
)

definitions = st.builds(
    DataSetDefinition,
    type=st.just(1),
    version=int32,
    data_set_type=texts,
    label=texts,
    observations=st.just(-1) | counts,
    variables=counts,
    obs_length=counts,
    compress=texts,
    reuse=st.sampled_from([b"R", b"E", b"\0", b" "]),
    encrypt=texts,
    sort_variables=st.just(0),
    collating=texts,
    sort_flags=st.integers(-(1 << 15), (1 << 15) - 1),
    read_flag=int32,
    read_password=st.binary(min_size=4, max_size=4),
    write_flag=int32,
    write_password=st.binary(min_size=4, max_size=4),
    alter_flag=int32,
    alter_password=st.binary(min_size=4, max_size=4),
)

variables = st.builds(
    Variable,
    name=names,
    format=texts,
    informat=texts,
    label=texts,
    type=st.sampled_from([b"\1", b"\2", b"1", b"2"]),
    length=st.integers(1, 8),
    format_length=counts,
    format_decimal=counts,
    informat_length=counts,
    informat_decimal=counts,
    nsort=st.binary(min_size=1, max_size=1),
)


@st.composite
def indexes(draw: st.DrawFn) -> Index:
    keys = draw(st.lists(names, max_size=4))
    return Index(draw(int32), draw(names), draw(int32), len(keys), keys)


def some_text(random: Random, longest: int) -> str:
    return "".join(random.choices(ALPHABET, k=random.choice([0, 1, random.randint(0, longest)])))


def some_header(random: Random) -> MessageHeader:
    """A header as programs send them: small numbers, short texts, often empty."""

    def correlid() -> bytes:
        return random.choice([bytes(24), random.randbytes(16) + bytes(8), random.randbytes(20) + bytes(4)])

    return MessageHeader(
        correlid(),
        random.choice([0, 1, 8, random.randint(65536, 1 << 20)]),
        correlid(),
        correlid(),
        tuple(
            AttachmentDefinition(
                random.choice(list(AttachmentKind)),
                random.choice([random.randbytes(16), bytes(15) + b"\1"]),
                random.choice(["FILENAME", "FILEREF", "WORK", some_text(random, 8)]),
                some_text(random, 60),
                some_text(random, 40),
                random.choice([0, 0, 1, random.randint(0, 99)]),
                random.choice([0, 0, 1, random.randint(0, 99)]),
            )
            for _ in range(random.choice([1, 1, 1, 2, 3, 8]))
        ),
    )


def some_definition(random: Random) -> DataSetDefinition:
    count = random.randint(0, 300)
    return DataSetDefinition(
        type=1,
        version=random.choice([0, 0, 1]),
        data_set_type=random.choice(["", "DATA", "CORR"]),
        label=some_text(random, 40),
        observations=random.choice([-1, 0, 1, random.randint(0, 1 << 24)]),
        variables=count,
        obs_length=count * random.randint(1, 40),
        compress=random.choice(["", "NO", "YES", "CHAR", "BINARY"]),
        reuse=random.choice([b"R", b"E", b"\0", b" "]),
        encrypt=random.choice(["", "NO", "YES"]),
        sort_variables=random.randint(0, min(count, 3)),
        collating=random.choice(["", "", "ASCII", "EBCDIC"]),
        sort_flags=random.choice([0, 0, 1, 3]),
        read_flag=random.randint(0, 1),
        read_password=random.choice([bytes(4), random.randbytes(4)]),
        write_flag=random.randint(0, 1),
        write_password=random.choice([bytes(4), random.randbytes(4)]),
        alter_flag=random.randint(0, 1),
        alter_password=random.choice([bytes(4), random.randbytes(4)]),
    )


def some_variables(random: Random) -> tuple[Variable, ...]:
    def variable() -> Variable:
        numeric = random.random() < 0.5
        numbers: dict[str, Any] = {
            name: random.choice([0, 0, 2, 8, 12])
            for name in ("format_length", "format_decimal", "informat_length", "informat_decimal")
        }
        return Variable(
            name="V" + some_text(random, 31).replace(" ", "_"),
            format=random.choice(["", "$", "BEST", "DATE", some_text(random, 32)]),
            informat=random.choice(["", "$", "DATE"]),
            label=some_text(random, 60),
            type=b"\1" if numeric else b"\2",
            length=random.randint(3, 8) if numeric else random.choice([1, 8, 20, 200, 32767]),
            nsort=random.choice([b"\0", b"\1", b"\xff"]),
            **numbers,
        )

    return tuple(variable() for _ in range(random.choice([1, 1, 2, 5, 20])))


def records(parts: Sequence[Buffer], dialect: Dialect) -> Iterator[Buffer]:
    """The records of a file whose messages have these payloads."""
    record = b""
    for part, start, length, ends in file_messages.spans(parts, dialect):
        record += parts[part][start : start + length]
        if ends:
            yield record
            record = b""

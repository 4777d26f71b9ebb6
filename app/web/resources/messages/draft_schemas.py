"""The JSON that describes a message to send.

A draft in this module is the JSON; `app.service.sending.drafts` has the records.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from app.codecs.charset_text import charset_codec
from app.model.attachment import AttachmentKind
from app.model.names import folded
from app.model.validation import (
    CORREL_ID,
    DELIMITER,
    IDENTIFIER,
    NO_CONTROL_CHARACTERS,
    NO_SPACES,
    PRINTABLE_ASCII,
    TEXT,
)
from app.service.sending import drafts
from app.service.sending.drafts import FILE_SPECIFICATIONS
from app.service.sending.upload_conversion import ConversionRequest
from app.service.sending.upload_parts import StoredPart
from app.tables.read.file_formats import FORMATS
from app.tables.read.read_request import DataSetOverrides, NameRule, ReadOptions, VariableOverrides, VariableType
from app.web.resources.messages.schemas import MOST_MAP_VALUES, MapType, check_map_value
from app.web.resources.schemas import KINDS, KindWord

Name = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=NO_CONTROL_CHARACTERS)]
Label = Annotated[str, StringConstraints(max_length=4096, pattern=NO_CONTROL_CHARACTERS)]
Reference = Annotated[str, StringConstraints(max_length=64, pattern=NO_SPACES)]
UploadIdentifier = Annotated[str, StringConstraints(pattern=IDENTIFIER)]
Int32 = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Text = Annotated[str, StringConstraints(max_length=4096, pattern=TEXT)]


class Strict(BaseModel):
    """JSON from clients; undocumented members are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class VariableDraft(Strict):
    """The settings for one variable; omitted settings are taken from the file."""

    name: Name | None = Field(default=None, description="the variable's name, if it differs from the column's")
    type: VariableType | None = Field(default=None, description="`character` keeps numbers as text")
    length: int | None = Field(
        default=None, description="bytes: 3 to 8 for a numeric variable, up to 32,767 for a character variable"
    )
    format: Reference | None = Field(default=None, examples=["DATE9."])
    informat: Reference | None = Field(default=None, examples=["DATE9."])
    label: Label | None = None

    def override(self, column: str) -> VariableOverrides:
        return VariableOverrides(column, self.name, self.type, self.length, self.format, self.informat, self.label)


class DataSetDraft(Strict):
    """The settings for reading the file of a data set, and the attributes of the data set; omitted settings are taken
    from the file.
    """

    format: str | None = Field(
        default=None, description="the file's format", json_schema_extra={"enum": [*FORMATS, None]}
    )
    encoding: Annotated[str, StringConstraints(max_length=40)] | None = Field(
        default=None, description="character set of a CSV, transport or sas7bdat file", examples=["windows-1252"]
    )
    delimiter: Annotated[str, StringConstraints(pattern=DELIMITER)] | None = Field(
        default=None, description="separator of a CSV file's cells", examples=[";"]
    )
    decimal: Literal[".", ","] = Field(default=".", description="decimal separator of a CSV file")
    header: bool = Field(default=True, description="whether a CSV file's first row names the columns")
    missing: Literal["null", "tag"] = Field(
        default="null", description="`tag`: `.A` among numbers or dates of CSV and JSON is a special missing value"
    )
    member: Name | None = Field(default=None, description="name of the data set, if a transport file has several")
    catalog: str | None = Field(
        default=None,
        description="name of the part with value labels: a sas7bcat, or a data set of CNTLOUT=",
        examples=["formats"],
    )
    define: str | None = Field(
        default=None, description="name of the part with a define.xml (CDISC Define-XML 2.0 or 2.1)"
    )
    names: NameRule = Field(
        default="strict",
        description="for columns whose names SAS does not accept: refuse, send as name literals, or rename",
    )
    label: Label | None = None
    variables: dict[Name, VariableDraft] = Field(default={}, description="by column")

    @field_validator("format")
    @classmethod
    def _is_known(cls, given: str | None) -> str | None:
        if given is not None and given not in FORMATS:
            raise ValueError(f"unknown format {given!r}; choose one of: {', '.join(FORMATS)}")
        return given

    @field_validator("encoding")
    @classmethod
    def _is_character_set(cls, given: str | None) -> str | None:
        if given is not None:
            charset_codec(given)
        return given

    @model_validator(mode="after")
    def _columns_differ(self) -> Self:
        if len({folded(column) for column in self.variables}) < len(self.variables):
            raise ValueError("two columns differ in upper and lower case only")
        return self

    def request(self) -> ConversionRequest:
        variables = {folded(column): variable.override(column) for column, variable in self.variables.items()}
        types = {column: override.type for column, override in variables.items() if override.type is not None}
        return ConversionRequest(
            self.format,
            ReadOptions(
                encoding=self.encoding,
                delimiter=self.delimiter,
                decimal=self.decimal,
                header=self.header,
                tags=self.missing == "tag",
                member=self.member,
                types=types,
            ),
            DataSetOverrides(label=self.label, names=self.names, variables=variables),
            self.catalog,
            self.define,
        )

    @property
    def companions(self) -> list[str]:
        """The names of the parts that describe the file."""
        return [part for part in (self.catalog, self.define) if part is not None]


class MapValueDraft(Strict):
    """One value of a map. A `short` has 16 bits, a `long` 32."""

    type: MapType
    value: int | float | str

    @field_validator("value", mode="before")
    @classmethod
    def _is_number_or_text(cls, given: Any) -> Any:
        # Pydantic would give an error for each type of the union, at a place that the JSON does not have.
        if isinstance(given, bool) or not isinstance(given, int | float | str):
            raise ValueError("give a number or a text")  # noqa: TRY004 - pydantic's error
        return given

    @model_validator(mode="after")
    def _suits_its_type(self) -> Self:
        check_map_value(self.type, self.value)
        return self


class ApplicationMessageDraft(Strict):
    """The application message: `text`, which is sent in the destination's character set; the bytes of `base64`, which
    are sent unchanged; or the `values` of a map, for receivers over TIB/Rendezvous.
    """

    text: str | None = Field(default=None, examples=["This is the actual application message."])
    base64: str | None = Field(
        default=None, description="bytes; with the format MQSTR they are text in the destination's character set"
    )
    values: Annotated[list[MapValueDraft], Field(max_length=MOST_MAP_VALUES)] | None = Field(
        default=None, description="the values of a map, in its order; for a destination with framing sas_rendezvous"
    )
    format: Annotated[str, StringConstraints(max_length=8, pattern=PRINTABLE_ASCII)] | None = Field(
        default=None,
        description="the descriptor's Format; default: MQSTR for text, blank for bytes",
        examples=["MQSTR"],
    )

    @field_validator("base64")
    @classmethod
    def _is_base64(cls, given: str | None) -> str | None:
        if given is not None:
            try:
                base64.b64decode(given, validate=True)
            except binascii.Error as error:
                raise ValueError(f"not base64: {error}") from None
        return given

    @model_validator(mode="after")
    def _is_one_of_three(self) -> Self:
        if [self.text, self.base64, self.values].count(None) != 2:
            raise ValueError("give one of text, base64 and values")
        return self

    def draft(self) -> drafts.DraftedApplicationMessage:
        content: str | bytes | tuple[drafts.MapValue, ...]
        if self.values is not None:
            content = tuple((each.type, each.value) for each in self.values)
        else:
            content = self.text if self.text is not None else base64.b64decode(self.base64 or "")
        return drafts.DraftedApplicationMessage(content, self.format)


class AttachmentDraft(Strict):
    """One attachment: the part with its bytes, and the fields of its entry in the header."""

    part: str = Field(description="name of the part with its bytes", examples=["file"])
    kind: KindWord | None = Field(
        default=None,
        description="default: recognised from the content, among the kinds that the destination takes",
        examples=["text-file"],
    )
    name: Name | None = Field(
        default=None,
        description="qualifier 2: a file's name; a data set's member or `LIBRARY.MEMBER` (default: from its file)",
        examples=["report.txt"],
    )
    qualifier_1: Name | None = Field(
        default=None, description="file: FILENAME (default) or FILEREF; data set: its library"
    )
    data_set: DataSetDraft | None = Field(
        default=None, description="data set: how to read its file, and its attributes"
    )
    description: Text | None = None
    minor_version: Int32 = 0
    major_version: Int32 = 0

    @model_validator(mode="after")
    def _suits_its_kind(self) -> Self:
        if self.kind is None:
            return self
        is_data_set = self.kind == AttachmentKind.DATA_SET.word
        if self.data_set is not None and not is_data_set:
            raise ValueError("data_set is for data sets")
        if not is_data_set and self.qualifier_1 not in (None, *FILE_SPECIFICATIONS):
            raise ValueError(
                f"the qualifier_1 of a file is {' or '.join(FILE_SPECIFICATIONS)}, not {self.qualifier_1!r}"
            )
        return self

    def stated_kind(self) -> AttachmentKind | None:
        """Return the kind that the sender states; None if it is to be recognised."""
        if self.kind is None:
            return AttachmentKind.DATA_SET if self.data_set is not None else None
        return KINDS[self.kind]

    def draft(self, description: str, otherwise: AttachmentKind) -> drafts.DraftedAttachment:
        """Return the record. `otherwise` is the kind where the sender states none."""
        return drafts.DraftedAttachment(
            part=self.part,
            kind=self.stated_kind() or otherwise,
            name=self.name,
            qualifier_1=self.qualifier_1,
            description=description if self.description is None else self.description,
            minor_version=self.minor_version,
            major_version=self.major_version,
            conversion=(self.data_set or DataSetDraft()).request(),
        )


class MessageDraft(Strict):
    """A message to send. `description` applies to every attachment without one of its own."""

    destination: str = Field(examples=["partner"])
    description: Text = ""
    original_msg_type: Int32 = Field(default=0, description="the application's message type")
    original_correl_id: Annotated[str, StringConstraints(pattern=CORREL_ID)] = Field(
        default="", description="the application's correlation identifier; hexadecimal"
    )
    application_message: ApplicationMessageDraft | None = None
    attachments: Annotated[list[AttachmentDraft], Field(min_length=1)]
    uploads: dict[str, UploadIdentifier] = Field(
        default={},
        description="complete resumable uploads that take the place of parts: identifiers by the names of the parts",
        examples=[{"file": "9f2c4b1e0d5a4c3b8e7f6a5d4c3b2a19"}],
    )

    @model_validator(mode="after")
    def _parts_differ(self) -> Self:
        parts = [attachment.part for attachment in self.attachments]
        if len(set(parts)) < len(parts):
            raise ValueError("two attachments name the same part")
        if both := self.companions & set(parts):
            raise ValueError(f"the part {min(both)!r} is an attachment, and a catalog or define.xml")
        if unused := self.uploads.keys() - self.part_names:
            raise ValueError(f"no attachment names the part {min(unused)!r} of uploads")
        return self

    @property
    def companions(self) -> set[str]:
        """The names of the parts that describe data sets and are no attachments."""
        return {part for each in self.attachments if each.data_set for part in each.data_set.companions}

    @property
    def part_names(self) -> set[str]:
        """The names of all parts."""
        return {attachment.part for attachment in self.attachments} | self.companions

    def completed(
        self, kinds: Sequence[AttachmentKind], names: Sequence[str], companions: Mapping[str, str]
    ) -> "MessageDraft":
        """Return the message with the kind of every attachment, and the names of those files that have none.

        `kinds` and `names` are in the order of the attachments. `companions` are the parts that describe all data sets.
        Raises ValidationError.
        """
        said = self.model_dump(exclude_unset=True)
        for entry, kind, name in zip(said["attachments"], kinds, names, strict=True):
            entry["kind"] = kind.word
            if kind is not AttachmentKind.DATA_SET and entry.get("name") is None:
                entry["name"] = name
            if kind is AttachmentKind.DATA_SET and companions:
                entry["data_set"] = {**(entry.get("data_set") or {}), **companions}
        return MessageDraft.model_validate(said)

    def draft(self, otherwise: AttachmentKind = AttachmentKind.BINARY_FILE) -> drafts.DraftedMessage:
        """Return the record. `otherwise` is the kind of attachments for which the sender states none."""
        return drafts.DraftedMessage(
            destination=self.destination,
            attachments=tuple(attachment.draft(self.description, otherwise) for attachment in self.attachments),
            original_msg_type=self.original_msg_type,
            original_correl_id=bytes.fromhex(self.original_correl_id),
            application_message=self.application_message.draft() if self.application_message else None,
        )

    def fingerprint(self, parts: Sequence[StoredPart]) -> str:
        """Return a hash that is equal for equal requests: of the description and the SHA-256 of each part."""
        whole = sha256(self.model_dump_json(exclude={"uploads"}).encode())
        for part in parts:
            whole.update(f"\n{part.name}={part.sha256}".encode())
        return whole.hexdigest()


def schemas() -> dict[str, Any]:
    """Return the JSON schemas of a message's description, for OpenAPI's components."""
    whole = MessageDraft.model_json_schema(ref_template="#/components/schemas/{model}")
    return {**whole.pop("$defs"), "MessageDraft": whole}

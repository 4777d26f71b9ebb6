"""What a client says of a file that is to be sent as a data set."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from app.service.incoming import Asked
from app.tables.read.formats import FORMATS
from app.tables.read.reading import Options, VariableType
from app.tables.read.wishes import NameRule, VariableWish, Wishes

Name = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]*$")]
Label = Annotated[str, StringConstraints(max_length=4096, pattern=r"^[^\x00-\x1f\x7f]*$")]
Reference = Annotated[str, StringConstraints(max_length=64, pattern=r"^[!-~]*$")]


class Strict(BaseModel):
    """What clients send: no member but those described."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class VariableDraft(Strict):
    """What is wanted of one variable; what is left out, the file tells."""

    name: Name | None = Field(default=None, description="the variable's name, if not that of its column")
    type: VariableType | None = Field(default=None, description="`character` keeps what looks like numbers as text")
    length: int | None = Field(default=None, description="bytes: 3 to 8 of a numeric, up to 32,767 of characters")
    format: Reference | None = Field(default=None, examples=["DATE9."])
    informat: Reference | None = Field(default=None, examples=["DATE9."])
    label: Label | None = None

    def wish(self, column: str) -> VariableWish:
        return VariableWish(column, self.name, self.type, self.length, self.format, self.informat, self.label)


class DataSetDraft(Strict):
    """How to read the file of a data set, and what the data set is; what is left out, the file tells."""

    format: str | None = Field(
        default=None, description="the file's format", json_schema_extra={"enum": [*FORMATS, None]}
    )
    encoding: Annotated[str, StringConstraints(max_length=40)] | None = Field(
        default=None, description="character set of a CSV or transport file", examples=["windows-1252"]
    )
    delimiter: Annotated[str, StringConstraints(pattern=r"^[\t !#-~]$")] | None = Field(
        default=None, description="what separates a CSV file's cells", examples=[";"]
    )
    decimal: Literal[".", ","] = Field(default=".", description="what stands before a number's fraction in a CSV file")
    header: bool = Field(default=True, description="whether a CSV file's first row names the columns")
    missing: Literal["null", "tag"] = Field(
        default="null", description="`tag`: a CSV cell `.A` among numbers is a special missing value"
    )
    member: Name | None = Field(default=None, description="which data set of a transport file that has several")
    names: NameRule = Field(
        default="strict", description="columns whose names SAS does not take: refuse, send as name literals, or rename"
    )
    label: Label | None = None
    variables: dict[Name, VariableDraft] = Field(default={}, description="by column")

    @field_validator("format")
    @classmethod
    def _is_known(cls, given: str | None) -> str | None:
        if given is not None and given not in FORMATS:
            raise ValueError(f"not one of {', '.join(FORMATS)}")
        return given

    @model_validator(mode="after")
    def _columns_differ(self) -> Self:
        if len({column.casefold() for column in self.variables}) < len(self.variables):
            raise ValueError("two columns differ in upper and lower case only")
        return self

    def asked(self, library: str | None, member: str | None, file_stem: str) -> Asked:
        variables = {column.casefold(): variable.wish(column) for column, variable in self.variables.items()}
        types = {column: wish.type for column, wish in variables.items() if wish.type is not None}
        return Asked(
            self.format,
            Options(
                encoding=self.encoding,
                delimiter=self.delimiter,
                decimal=self.decimal,
                header=self.header,
                tags=self.missing == "tag",
                member=self.member,
                types=types,
            ),
            Wishes(library, member, file_stem, self.label, self.names, variables),
        )

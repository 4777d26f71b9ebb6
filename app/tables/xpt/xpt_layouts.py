"""The records of a transport file.

A file is a sequence of records of 80 bytes: header records, each of which describes the data after it, and data.
Numbers have the high byte first. Text is padded with blanks; in some of SAS's own files with NULs.
"""

from typing import Annotated, Final

from app.wire import Chars, Context, Layout, Num, Raw, row

RECORD: Final = 80
"""The size of a record in bytes."""

Char2 = Annotated[str, Chars(2)]
Char8 = Annotated[str, Chars(8)]
Char16 = Annotated[str, Chars(16)]
Char20 = Annotated[str, Chars(20)]
Char24 = Annotated[str, Chars(24)]
Char30 = Annotated[str, Chars(30)]
Char32 = Annotated[str, Chars(32)]
Char40 = Annotated[str, Chars(40)]
Char64 = Annotated[str, Chars(64)]
Short = Annotated[int, Num("H")]
Long = Annotated[int, Num("I")]


class HeaderRecord(Layout):
    """The first record of each part of a file."""

    header: Char20 = row("HEADER RECORD*******", default="HEADER RECORD*******")
    name: Char8 = row("the part's name", default="")
    record: Char20 = row("HEADER RECORD!!!!!!!", default="HEADER RECORD!!!!!!!")
    numbers: Char30 = row("digits: sizes and counts of the data that follows", default="0" * 30)
    blanks: Char2 = row("blanks", default="")


class LibraryRecord(Layout):
    """The record after LIBRARY or LIBV8: the system that made the file."""

    sas_symbol_1: Char8 = row("SAS", default="SAS")
    sas_symbol_2: Char8 = row("SAS", default="SAS")
    saslib: Char8 = row("SASLIB", default="SASLIB")
    version: Char8 = row("version of SAS that made the file", default="")
    system: Char8 = row("operating system on which it was made", default="")
    blanks: Char24 = row("blanks", default="")
    created: Char16 = row("time of creation, as ddMMMyy:hh:mm:ss", default="")


class ModifiedRecord(Layout):
    """The record after the library record."""

    modified: Char16 = row("time of the last change of the file, as ddMMMyy:hh:mm:ss", default="")
    blanks: Char64 = row("blanks", default="")


class MemberRecord5(Layout):
    """The record after DSCRPTR: a data set of version 5."""

    sas_symbol: Char8 = row("SAS", default="SAS")
    name: Char8 = row("data set name", default="")
    sasdata: Char8 = row("SASDATA", default="SASDATA")
    version: Char8 = row("version of SAS that made the data set", default="")
    system: Char8 = row("operating system on which it was made", default="")
    blanks: Char24 = row("blanks", default="")
    created: Char16 = row("time of creation, as ddMMMyy:hh:mm:ss", default="")


class MemberRecord8(Layout):
    """The record after DSCPTV8: a data set of version 8."""

    sas_symbol: Char8 = row("SAS", default="SAS")
    name: Char32 = row("data set name", default="")
    sasdata: Char8 = row("SASDATA", default="SASDATA")
    version: Char8 = row("version of SAS that made the data set", default="")
    system: Char8 = row("operating system on which it was made", default="")
    created: Char16 = row("time of creation, as ddMMMyy:hh:mm:ss", default="")


class LabelRecord(Layout):
    """The record after a member record of either version."""

    modified: Char16 = row("time of the last change of the data set, as ddMMMyy:hh:mm:ss", default="")
    blanks: Char16 = row("blanks", default="")
    label: Char40 = row("data set label", default="")
    type: Char8 = row("data set type", default="")


class Namestr(Layout):
    """The description of a variable that both versions share; each version adds bytes of its own."""

    ntype: Short = row("type of variable: 1 numeric, 2 character")
    nhfun: Short = row("hash of the name, always 0", default=0)
    nlng: Short = row("length of the variable in an observation", default=8)
    nvar0: Short = row("number of the variable, from 1", default=0)
    nname: Char8 = row("name", default="")
    nlabel: Char40 = row("label", default="")
    nform: Char8 = row("name of the format", default="")
    nfl: Short = row("format field length, or 0", default=0)
    nfd: Short = row("format number of decimals", default=0)
    nfj: Short = row("0 left justification, 1 right", default=0)
    nfill: Annotated[bytes, Raw(2)] = row("unused", default=bytes(2))
    niform: Char8 = row("name of the informat", default="")
    nifl: Short = row("informat length attribute", default=0)
    nifd: Short = row("informat number of decimals", default=0)
    npos: Long = row("position of the value in an observation", default=0)


class Namestr5(Namestr):
    """A variable in version 5. Files of VAX/VMS have 48 bytes at the end."""

    rest: Annotated[bytes, Raw(52)] = row("unused", default=bytes(52))


class Namestr8(Namestr):
    """A variable in version 8."""

    longname: Char32 = row("long name", default="")
    lablen: Short = row("length of the label", default=0)
    formlen: Short = row("length of the format name", default=0)
    informlen: Short = row("length of the informat name", default=0)
    rest: Annotated[bytes, Raw(14)] = row("unused", default=bytes(14))


class Label8(Layout):
    """The record after LABELV8, for a label that its Namestr8 cannot hold; name and label follow."""

    number: Short = row("number of the variable, from 1")
    name: Short = row("bytes of the name")
    label: Short = row("bytes of the label")


class Label9(Label8):
    """The record after LABELV9, for a format or informat name that its Namestr8 cannot hold.

    Name, label, format and informat follow.
    """

    format: Short = row("bytes of the format, written as in a FORMAT statement", default=0)
    informat: Short = row("bytes of the informat, written in the same way", default=0)


CONTEXT: Final = Context(">", "latin-1")
"""The representation of header records; texts of the data set have a character set of their own."""

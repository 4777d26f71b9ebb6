"""What the kernel tells of a session: 2208 bytes with few fields. The bytes between them are kept."""

from typing import Annotated

from app.wire import Layout, Num, Raw, row


class SessionInfo(Layout):
    """The buffer of a session_info_returned part."""

    unicode_database: Annotated[int, Num("B")] = row("1: the database has Unicode names")
    session_id: Annotated[bytes, Raw(4)] = row("session, as in its parsids")
    date_format_name_length: Annotated[int, Num("B")] = row("bytes of the name of the national date format")
    date_format_name: Annotated[bytes, Raw(100)] = row("name of the national date format")
    coded_length: Annotated[int, Num("B")] = row("bytes of the coded date format")
    coded: Annotated[bytes, Raw(50)] = row("coded date format")
    date_language: Annotated[bytes, Raw(6)] = row("language of dates")
    language: Annotated[bytes, Raw(6)] = row("language")
    date_format: Annotated[int, Num("B")] = row("format of dates and times")
    numeric_characters: Annotated[bytes, Raw(4)] = row("characters in numbers")
    unused: Annotated[bytes, Raw(18)] = row("unused")
    dictionary: Annotated[bytes, Raw(2000)] = row("dictionary")
    page_size: Annotated[bytes, Raw(5)] = row("bytes of a page, as text")
    unused2: Annotated[bytes, Raw(3)] = row("unused")
    kernel_version: Annotated[bytes, Raw(5)] = row("version of the kernel, as text")
    unused3: Annotated[bytes, Raw(3)] = row("unused")

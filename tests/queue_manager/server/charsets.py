"""Character sets by their identifiers (CCSIDs), as far as Python knows them.

Source: IBM MQ, "Code page conversion". The byte order of UTF-16 is that of the integers beside it (IBM MQ, "MQRFH2",
NameValueCCSID).
"""

_CODECS = {
    437: "cp437",
    819: "latin-1",
    850: "cp850",
    923: "iso8859-15",
    1202: "utf-16-le",
    1208: "utf-8",
    1252: "cp1252",
    37: "cp037",
    273: "cp273",
    500: "cp500",
    1140: "cp1140",
}
UTF_16 = frozenset({1200, 13488, 17584})


def codec(ccsid: int, order: str = ">") -> str | None:
    """Python's name of a character set, in a byte order as `struct` writes it; None for an unknown one."""
    if ccsid in UTF_16:
        return "utf-16-le" if order == "<" else "utf-16-be"
    return _CODECS.get(ccsid)

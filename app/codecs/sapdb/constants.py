"""The enumerations and limits of the order interface. Values that are not listed stay numbers."""

from collections.abc import Mapping
from enum import IntEnum, IntFlag
from typing import Final

ALIGNMENT: Final = 8
"""What the start of each segment and part is a multiple of."""

FILL: Final = 0xFF
"""The byte that the kernel and the C runtime fill up to the alignment with."""

MOST_BYTES: Final = 131_072
"""The longest packet, in bytes."""

SHORT_VARPART: Final = 16
"""Bytes by which `varpart_len` may be too small, as an old client writes it."""


class MessCode(IntEnum):
    """The code of a packet's texts. 3 to 18 are the character sets of old terminals."""

    ASCII = 0
    EBCDIC = 1
    CODE_NEUTRAL = 2
    UNICODE_SWAP = 19
    UNICODE = 20
    UNICODE_NATIVE = 21
    UTF8 = 22
    INSTANCE_CODE = 128


class MessSwap(IntEnum):
    """The order of bytes in a packet's numbers."""

    DUMMY = 0
    NORMAL = 1
    FULL_SWAPPED = 2
    PART_SWAPPED = 3


class SegmentKind(IntEnum):
    NIL = 0
    CMD = 1
    RETURN = 2
    PROCCALL = 3
    PROCREPLY = 4


class MessType(IntEnum):
    """What a command segment asks for."""

    NIL = 0
    DBS = 2
    PARSE = 3
    SYNTAX = 5
    EXECUTE = 13
    PUTVAL = 15
    GETVAL = 16
    LOAD = 17
    UNLOAD = 18
    HELLO = 25
    UTILITY = 27
    INCOPY = 28
    OUTCOPY = 30
    DIAG_OUTCOPY = 31
    SWITCH = 39
    SWITCHLIMIT = 40
    BUFLENGTH = 41
    MINBUF = 42
    MAXBUF = 43
    STATE_UTILITY = 44
    GET_CHALLENGE = 45
    WAIT_FOR_EVENT = 50
    PROCSERV_CALL = 52
    PROCSERV_REPLY = 53


class SqlMode(IntEnum):
    NIL = 0
    SESSION_SQLMODE = 1
    INTERNAL = 2
    ANSI = 3
    DB2 = 4
    ORACLE = 5


class Producer(IntEnum):
    """What a command comes from."""

    NIL = 0
    USER_CMD = 1
    INTERNAL_CMD = 2
    KERNEL = 3
    INSTALLATION = 4
    VIEW_OPTIMIZER = 5
    COMPLEX_VIEW_HANDLING = 6
    QUERYREWRITE = 7


class CommandOption(IntFlag):
    SELFETCH_OFF = 1
    SCROLLABLE_CURSOR_ON = 2
    NO_RESULTSET_CLOSE_NEEDED = 4


class PartKind(IntEnum):
    """What a part's buffer holds."""

    NIL = 0
    APPL_PARAMETER_DESCRIPTION = 1
    COLUMNNAMES = 2
    COMMAND = 3
    CONV_TABLES_RETURNED = 4
    DATA = 5
    ERRORTEXT = 6
    GETINFO = 7
    MODULNAME = 8
    PAGE = 9
    PARSID = 10
    PARSID_OF_SELECT = 11
    RESULTCOUNT = 12
    RESULTTABLENAME = 13
    SHORTINFO = 14
    USER_INFO_RETURNED = 15
    SURROGATE = 16
    BDINFO = 17
    LONGDATA = 18
    TABLENAME = 19
    SESSION_INFO_RETURNED = 20
    OUTPUT_COLS_NO_PARAMETER = 21
    KEY = 22
    SERIAL = 23
    RELATIVE_POS = 24
    ABAP_ISTREAM = 25
    ABAP_OSTREAM = 26
    ABAP_INFO = 27
    CHECKPOINT_INFO = 28
    PROCID = 29
    LONG_DEMAND = 30
    MESSAGE_LIST = 31
    VARDATA_SHORTINFO = 32
    VARDATA = 33
    FEATURE = 34
    CLIENTID = 35


class PartAttribute(IntFlag):
    """Which packet of several a part is in. In a reply, LAST says that no further rows exist."""

    LAST = 1
    NEXT = 2
    FIRST = 4


class ExternWarning(IntEnum):
    """Warnings of a return segment, by their bits."""

    WARNING_EXISTS = 0
    VALUES_TRUNCATED = 1
    NULL_IN_FUNCTION = 2
    COUNT_PARAM_OUTCOL = 3
    NO_WHERE_CLAUSE = 4
    DATE_ADJUSTED = 6
    TABLE_SCAN = 8
    STMT_OPTIMIZED = 9
    VIEWS_SUBSTITUTED = 10
    TIME_OVERFLOW = 11
    ROWNO_LIMIT = 12
    OPT_COLUMN_INDEXED = 13
    NEXT_INVLIST = 14
    USER_DEFINED_CODE = 15


class InternWarning(IntEnum):
    RESULTSET_CLOSED = 0


class FunctionCode(IntEnum):
    """What statement a return segment answers. Mass commands are 1000 more."""

    NIL = 0
    CREATE_TABLE = 1
    INSERT = 3
    SELECT = 4
    UPDATE = 5
    DROP_VIEW = 7
    DROP_TABLE = 8
    DELETE = 9
    CREATE_VIEW = 10
    DROP_USER = 11
    CREATE_SEQUENCE = 13
    DROP_SEQUENCE = 16
    CREATE_SCHEMA = 17
    CREATE_USER = 19
    CREATE_INDEX = 20
    DROP_INDEX = 21
    CREATE_PROCEDURE = 24
    ALTER_PROCEDURE = 25
    ALTER_TABLE = 26
    EXPLAIN = 27
    GRANT = 28
    REVOKE = 29
    CREATE_SYNONYM = 30
    DROP_SYNONYM = 31
    PL_SQL_EXECUTE = 34
    LOCK_TABLE = 35
    DROP_SCHEMA = 36
    RENAME = 37
    COMMENT = 38
    AUDIT = 39
    ALTER_SESSION = 52
    ALTER_USER = 53
    COMMIT = 54
    ROLLBACK = 55
    SAVEPOINT = 56
    CREATE_TRIGGER = 59
    ALTER_TRIGGER = 60
    DROP_TRIGGER = 61
    ANALYZE_TABLE = 62
    DROP_PROCEDURE = 68
    CREATE_SNAPSHOT_LOG = 71
    DROP_SNAPSHOT_LOG = 73
    CREATE_SNAPSHOT = 74
    SELECT_DIRECT = 201
    SELECT_FIRST = 202
    SELECT_LAST = 203
    SELECT_NEXT = 204
    SELECT_PREV = 205
    FETCH_FIRST = 206
    FETCH_LAST = 207
    FETCH_NEXT = 208
    FETCH_PREV = 209
    FETCH_POS = 210
    FETCH_SAME = 211
    STRING_COMMAND = 212
    CONNECT = 213
    DROP_PARSEID = 214
    CLOSE = 215
    SHOW = 216
    USAGE = 217
    SERVERDB = 218
    MONITOR = 219
    SET = 220
    LINK = 221
    CREATE_DOMAIN = 222
    DROP_DOMAIN = 223
    DESCRIBE = 224
    ALTER_PASSWORD = 225
    PUTVAL = 233
    GETVAL = 234
    DIAGNOSE = 235
    UNLOCK = 236
    REFRESH = 237
    CLEAR_SNAPSHOT_LOG = 238
    NEXT_STAMP = 239
    EXISTS_TABLE = 240
    COMMIT_RELEASE = 241
    ROLLBACK_RELEASE = 242
    DRDA_NATIVE_DDL = 243
    SELECT_INTO = 244
    FETCH_RELATIVE = 247
    CURSOR_PL_SQL_EXECUTE = 248
    ADMINISTRATOR = 249
    RESET = 250
    MASS_INSERT = 1003
    MASS_SELECT = 1004
    MASS_UPDATE = 1005
    MASS_DELETE = 1009
    MASS_LOCK_OBJECTS = 1035
    MASS_FETCH_FIRST = 1206
    MASS_FETCH_LAST = 1207
    MASS_FETCH_NEXT = 1208
    MASS_FETCH_PREV = 1209
    MASS_FETCH_POS = 1210
    MASS_FETCH_SAME = 1211
    MASS_SELECT_INTO = 1244
    MASS_FETCH_RELATIVE = 1247


class DataType(IntEnum):
    FIXED = 0
    FLOAT = 1
    CHAR_ASCII = 2
    CHAR_EBCDIC = 3
    CHAR_BYTE = 4
    ROWID = 5
    LONG_ASCII = 6
    LONG_EBCDIC = 7
    LONG_BYTE = 8
    LONG_DBYTE = 9
    DATE = 10
    TIME = 11
    VFLOAT = 12
    TIMESTAMP = 13
    UNKNOWN = 14
    NUMBER = 15
    NONUMBER = 16
    DURATION = 17
    DBYTE_EBCDIC = 18
    LONGFILE_ASCII = 19
    LONGFILE_EBCDIC = 20
    LONGFILE_BYTE = 21
    LONGFILE_DBYTE = 22
    BOOLEAN = 23
    UNICODE = 24
    SMALLINT = 29
    INTEGER = 30
    VARCHAR_ASCII = 31
    VARCHAR_EBCDIC = 32
    VARCHAR_BYTE = 33
    LONG_UNICODE = 34
    LONGFILE_UNICODE = 35
    VARCHAR_UNICODE = 36
    UDT = 37
    ABAP_TABLE_HANDLE = 38
    WYDE = 39


class IoType(IntEnum):
    INPUT = 0
    OUTPUT = 1
    INOUT = 2


class ParameterMode(IntFlag):
    MANDATORY = 1
    OPTIONAL = 2
    DEFAULT = 4
    ESCAPE_CHAR = 8


class ValMode(IntEnum):
    """Which piece of a LONG value a descriptor brings, or asks for."""

    DATAPART = 0
    ALLDATA = 1
    LASTDATA = 2
    NODATA = 3
    NO_MORE_DATA = 4
    LAST_PUTVAL = 5
    DATA_TRUNC = 6
    CLOSE = 7
    ERROR = 8
    STARTPOS_INVALID = 9


class Undef(IntEnum):
    """Undef bytes that say that there is no value. Any other byte says that there is one."""

    LONG_DEFAULT = 0xFC
    DEFAULT = 0xFD
    SPECIAL_NULL = 0xFE
    NULL = 0xFF


NUMBERS: Final = frozenset(
    {DataType.FIXED, DataType.FLOAT, DataType.VFLOAT, DataType.NUMBER, DataType.SMALLINT, DataType.INTEGER}
)
ASCII_TEXTS: Final = frozenset({DataType.CHAR_ASCII, DataType.VARCHAR_ASCII})
EBCDIC_TEXTS: Final = frozenset({DataType.CHAR_EBCDIC, DataType.VARCHAR_EBCDIC})
UNICODE_TEXTS: Final = frozenset({DataType.UNICODE, DataType.VARCHAR_UNICODE})
MOMENTS: Final = frozenset({DataType.DATE, DataType.TIME, DataType.TIMESTAMP})
LONGS: Final = frozenset(
    {
        DataType.LONG_ASCII,
        DataType.LONG_EBCDIC,
        DataType.LONG_BYTE,
        DataType.LONG_DBYTE,
        DataType.LONGFILE_ASCII,
        DataType.LONGFILE_EBCDIC,
        DataType.LONGFILE_BYTE,
        DataType.LONGFILE_DBYTE,
        DataType.LONG_UNICODE,
        DataType.LONGFILE_UNICODE,
    }
)
"""Types whose value is a LONG descriptor."""

WHOLE_NUMBERS: Final[Mapping[int, range]] = {
    DataType.SMALLINT: range(-(1 << 15), 1 << 15),
    DataType.INTEGER: range(-(1 << 31), 1 << 31),
}
"""The range of each type that cannot have all values of its digits."""

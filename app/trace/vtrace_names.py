"""The names that a kernel's vtrace has for the values of the order interface; values without a name are numbers."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from app.codecs.sapdb.constants import (
    DataType,
    ExternWarning,
    FunctionCode,
    InternWarning,
    IoType,
    MessCode,
    MessSwap,
    MessType,
    PartKind,
    Producer,
    SqlMode,
)


def _names(enum: type[IntEnum], other: Mapping[int, str | None] | None = None, behind: str = "") -> dict[int, str]:
    """Return names of an enumeration in small letters; `other` has what the trace calls otherwise, None for not at
    all."""
    names: dict[int, str | None] = {member.value: member.name.lower() + behind for member in enum}
    names |= other or {}
    return {number: name for number, name in names.items() if name is not None}


CODES: Final[dict[int, str]] = {
    MessCode.ASCII: "ascii",
    MessCode.UNICODE: "unicode",
    MessCode.UNICODE_SWAP: "unicode_swap",
}
SWAPS: Final[dict[int, str]] = {
    MessSwap.NORMAL: "normal_swap",
    MessSwap.FULL_SWAPPED: "full_swap",
    MessSwap.PART_SWAPPED: "part_swap",
}
MESS_TYPES: Final = _names(
    MessType,
    {
        0: "sp1m_nil",
        1: "cmd_lwb",
        11: "cmd_upb",
        12: "no_cmd_lwb",
        24: "no_cmd_upb",
        26: "util_lwb",
        37: "util_upb",
        38: "specials_lwb",
        44: "state_util",
        45: "getchallenge",
        49: "specials_upb",
        50: "event_wait",
        52: None,
        53: None,
    },
)
SQL_MODES: Final = _names(SqlMode, {0: "sp1sm_nil"})
PRODUCERS: Final = {number: name for number, name in _names(Producer).items() if 1 <= number <= 4}
PART_KINDS: Final = _names(
    PartKind,
    {
        0: "sp1pk_nil",
        1: "appl_param_desc",
        4: "conv_tables_return",
        7: None,
        15: "user_info_returned",
        20: "sessioninfo_return",
        21: "prepare outputcols",
        25: "abap input stream",
        26: "abap output stream",
        27: "sp1pk_abap_info",
        29: None,
        32: "vardata shortinfo",
    },
)
_MASS: Final = {
    member.value: f"m{FunctionCode(member.value - 1000).name.lower()}_fc"
    for member in FunctionCode
    if member.value > 1000 and member != FunctionCode.MASS_LOCK_OBJECTS
}
FUNCTION_CODES: Final = _names(
    FunctionCode,
    {
        0: "",
        24: "create_procedurefc",
        71: "cr_snapshot_log_fc",
        73: "dr_snapshot_log_fc",
        216: None,
        238: "clear_snapshot_log",
        240: "exists_table",
        241: "commit_release",
        242: "rollback_release",
        243: "drda_native_ddl",
        244: "select_into",
        247: "fetch_relative",
        248: "cursor_pl_sql",
        **_MASS,
        1035: "mlock_objects_fc",
        1244: "mselect_into",
    },
    "_fc",
)
EXTERN_WARNINGS: Final = _names(ExternWarning)
INTERN_WARNINGS: Final = _names(InternWarning)
IO_TYPES: Final = _names(IoType)
DATA_TYPES: Final = _names(
    DataType,
    {
        2: "char_asc",
        3: None,
        6: "string_asc",
        7: None,
        8: "string_byte",
        9: None,
        18: None,
        19: "long_asc",
        20: None,
        21: "long_byte",
        22: None,
        31: "varchar_asc",
        32: None,
        34: "string_unico",
        35: "long_unicode",
        36: "varchar_uni",
        37: None,
        38: "abap_handle",
        39: None,
    },
)
PARSID_INFOS: Final = {
    1: "command_executed",
    2: "use_adbs",
    10: "release_found",
    30: "not_allowed_for_pr",
    40: "close_found",
    41: "describe_found",
    42: "fetch_found",
    43: "mfetch_found",
    44: "mass_select_found",
    45: "select_for_upd_fnd",
    46: "reuse_mass_select",
    47: "reuse_upd_select",
    60: "dialog_call",
    70: "mass_command",
    114: "mselect_found",
    115: "for_updmselect_fnd",
    116: "reuse_mselect_fnd",
    117: "reuse_upd_mselect",
}
STATEMENTS: Final = {
    0: "nil",
    1: "begin",
    2: "cancel",
    3: "change",
    4: "check_database",
    6: "close",
    7: "column",
    8: "column_statistic",
    9: "commit",
    10: "complex",
    11: "connect",
    12: "invalid",
    14: "create_file",
    15: "create_index",
    17: "create_table",
    18: "delete",
    20: "describe",
    21: "destroy_temp",
    22: "diagnose",
    23: "down",
    24: "drop",
    26: "end",
    27: "eval",
    28: "fetch",
    29: "flush",
    30: "get",
    31: "usage",
    32: "index_statistic",
    35: "insert",
    36: "insert_select",
    39: "key",
    40: "lock",
    41: "mend",
    42: "mfetch",
    43: "move",
    46: "outcopy",
    48: "partial_rollback",
    50: "release",
    51: "reload",
    52: "restart",
    53: "restore",
    54: "return_error",
    55: "return_result",
    56: "rollback",
    57: "save",
    59: "savepoint",
    60: "select",
    61: "select_row",
    62: "set",
    63: "show",
    64: "shutdown",
    67: "stamp",
    68: "succ_file_version",
    69: "table_statistic",
    70: "union",
    71: "unload",
    72: "unlock",
    74: "up",
    76: "update",
    77: "update_rec",
    78: "verify",
    82: "nextval",
    83: "history",
    84: "sharedSQLParseid",
    85: "procedure",
    86: "new",
    88: "get_object",
    90: "save_parallel",
    91: "restore_parallel",
    92: "autosave",
}
"""The kinds of statement in a parsid, by the kernel's internal message types."""

LAST_STATEMENT: Final = 92
"""Message types above this are shown in hexadecimal."""

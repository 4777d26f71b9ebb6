"""What is done about each reason code."""

import pytest

from adapters.ibm_mq.client import MqiError
from adapters.ibm_mq.reason_codes import NAMES, REMEDIES, Remedy, remedy, spoken
from tests.support.mqi import Library, load

RETRY = {
    *(2003, 2016, 2017, 2024, 2042, 2051, 2053, 2056, 2071, 2079, 2080, 2101, 2102, 2109, 2189, 2192, 2268, 2269),
}
RECONNECT = {
    *(2009, 2018, 2019, 2025, 2041, 2052, 2059, 2161, 2162, 2195, 2202, 2203, 2219, 2223, 2273, 2537, 2538, 2539),
    *(2548, 2549),
}
FATAL = {
    *(2002, 2010, 2026, 2027, 2029, 2030, 2031, 2035, 2043, 2045, 2046, 2047, 2048, 2050, 2058, 2063, 2067, 2068),
    *(2082, 2085, 2086, 2087, 2092, 2152, 2196, 2218, 2247, 2248, 2249, 2250, 2251, 2252, 2258, 2277, 2278, 2298),
    *(2381, 2393, 2396, 2398, 2540),
}


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        *((reason, Remedy.RETRY) for reason in sorted(RETRY)),
        *((reason, Remedy.RECONNECT) for reason in sorted(RECONNECT)),
        *((reason, Remedy.FATAL) for reason in sorted(FATAL)),
        (2999, Remedy.RECONNECT),
    ],
)
def test_each_reason_has_its_remedy(reason: int, expected: Remedy) -> None:
    assert remedy(reason) is expected


def test_no_reason_is_left_untested() -> None:
    assert set(REMEDIES) == RETRY | RECONNECT | FATAL


def test_a_reply_is_put_again_after_what_may_pass_by_itself() -> None:
    """The connection is kept, or the queue manager quiesces; what breaks the connection is another matter."""
    passing = {reason for reason in RETRY | RECONNECT | FATAL if MqiError("MQPUT1", "Q", reason).may_pass}
    assert passing == RETRY | {2161, 2202}


@pytest.mark.process
@pytest.mark.parametrize("library", ["pymqi", "ibmmq"])
def test_the_names_are_those_of_the_client_library(library: Library) -> None:
    constants = vars(load(library).CMQC)
    assert {reason: name for reason, name in NAMES.items() if constants.get(name) != reason} == {}


def test_a_reason_is_spoken_with_its_name() -> None:
    assert spoken(2085) == "2085 MQRC_UNKNOWN_OBJECT_NAME"
    assert spoken(2999) == "2999"

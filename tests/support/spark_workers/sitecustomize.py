"""Start-up code of Python in Spark's workers of the tests; it registers the tests' own framing there."""

from app.framing.registry import FRAMINGS
from tests.framing.numbered import NUMBERED

FRAMINGS[NUMBERED.traits.name] = NUMBERED

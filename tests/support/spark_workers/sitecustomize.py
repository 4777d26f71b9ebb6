"""What Python does first in Spark's workers of the tests: it makes the tests' own framing known there."""

from app.framing.registry import FRAMINGS
from tests.framing.numbered import NUMBERED

FRAMINGS[NUMBERED.traits.name] = NUMBERED

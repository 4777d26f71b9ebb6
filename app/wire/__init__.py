"""The layout engine: a specification's table, typed in once, decodes, encodes, traces and documents itself.

It knows no protocol and imports no other package of this project.
"""

from app.wire.cells import Cell
from app.wire.kinds import Bits, Chars, Context, Many, Num, Raw, Rest, Text, Texts, Varint, WireError, in_part
from app.wire.layout import Layout, row

__all__ = [
    "Bits",
    "Cell",
    "Chars",
    "Context",
    "Layout",
    "Many",
    "Num",
    "Raw",
    "Rest",
    "Text",
    "Texts",
    "Varint",
    "WireError",
    "in_part",
    "row",
]

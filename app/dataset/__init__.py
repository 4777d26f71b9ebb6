"""Convert SAS observations to Arrow and back: types, missing values, labels and formats. Pure: no I/O of its own."""

from app.codecs import code_pages

code_pages.register()

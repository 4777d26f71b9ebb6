"""Convert SAS observations to Arrow and back: types, missing values, labels and formats. Pure: no I/O of its own."""

from app.codecs.ibm_mq import host_code_pages

host_code_pages.register()

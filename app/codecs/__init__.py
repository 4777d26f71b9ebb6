"""The codecs, one folder a specification: its terms, its tables, and the functions that read and write them."""

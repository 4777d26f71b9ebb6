"""SAS observations <-> Arrow: types, missing values, labels and formats. Pure: no I/O of its own."""

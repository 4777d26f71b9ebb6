"""Rows of the SAP DB order interface <-> Arrow record batches, a column at a time.

`app.codecs.sapdb.parameter_values` says what one value is; a column here is the same for all its rows at once. A cell
is a value without its undef byte; a column's cells are an array of rows by bytes, and `absent` marks the rows without a
value.
"""

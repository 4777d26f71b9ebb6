"""The tables of the catalog, their column types, and the conversion of rows."""

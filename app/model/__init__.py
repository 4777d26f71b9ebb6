"""Plain frozen records that every other package may use; they import none of the others."""

"""Plain frozen records that every other package may speak of; they import nothing."""

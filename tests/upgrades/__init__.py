"""Data and descriptions of released versions, which later ones must read and keep."""

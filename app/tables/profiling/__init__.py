"""Profiles of tables: what values each variable has.

A table is read once, batch by batch, in bounded memory. `summary` counts frequent values, and estimates the number of
different values when there are too many to hold.
"""

from app.tables.profiling.profiles import TOP, Profile, VariableProfile, profile, shown_number

__all__ = ["TOP", "Profile", "VariableProfile", "profile", "shown_number"]

"""Profiles of tables: what values each variable has.

A table is read once, batch by batch. Memory is bounded, whatever values there are: `summary` counts frequent values,
`distinct` estimates the number of different values when there are too many to hold.
"""

from app.tables.profiling.profiles import TOP, Profile, VariableProfile, profile, shown_number

__all__ = ["TOP", "Profile", "VariableProfile", "profile", "shown_number"]

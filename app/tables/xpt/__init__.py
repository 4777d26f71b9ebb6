"""SAS transport files (XPORT) of versions 5 and 8.

Sources: SAS, "Record Layout of a SAS Version 5 or 6 Data Set in SAS Transport (XPORT) Format" (TS-140) and "Record
Layout of a SAS Version 8 or 9 Data Set in SAS Transport Format"; where they lack details, the macros %LOC2XPT and
%XPT2LOC that SAS ships.
"""

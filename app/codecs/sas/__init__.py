"""SAS, Using the Common Messaging Interface: the attachment layout for MQSeries and MSMQ.

`attachment` has the attachment header and the count message, `files` the messages of a file, `dataset` those of a data
set, and `correlid` the correlation identifiers that connect them. The specification does not define byte order, the
width of a long, NULs and alignment; `dialect` detects the sender's choices.
"""

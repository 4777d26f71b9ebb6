"""SAS, Using the Common Messaging Interface: the attachment layout for MQSeries and MSMQ.

`attachment` has the header that announces attachments and the count message, `files` the messages of a file,
`dataset` those of a data set, `correlid` the correlation identifiers that hold them together. The specification leaves
byte order, the width of a long, NULs and alignment open; `dialect` finds out what a sender chose.
"""

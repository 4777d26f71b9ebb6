"""SAS, Using the Common Messaging Interface: the attachment layouts for MQSeries and MSMQ, and for TIB/Rendezvous.

`attachment` has the header that announces attachments and the count message, `files` the messages of a file,
`dataset` those of a data set, `correlid` the correlation identifiers that hold them together. The specification leaves
byte order, the width of a long, NULs and alignment open; `dialect` finds out what a sender chose.

On TIB/Rendezvous the same tables are numbered fields (`numbered`): `rendezvous` has the messages, with
`rendezvous_indexes` and `rendezvous_observations` for those that need more.
"""

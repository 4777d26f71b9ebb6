"""SAS, Using the Common Messaging Interface: the attachment layouts for MQSeries and MSMQ, and for TIB/Rendezvous.

`attachment_messages` has the header that announces attachments and the count message, `file_messages` the messages of a
file, `data_set_messages` the messages of a data set, `correlid` the correlation identifiers that connect them. The
specification leaves byte order, the width of a long, NULs and alignment open; `dialect` detects what a sender chose.

On TIB/Rendezvous the same tables are numbered fields (`numbered`): `rendezvous_messages` has the messages, with
`rendezvous_indexes` and `rendezvous_observations`.
"""

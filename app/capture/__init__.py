"""Captures of other programs, as physical messages.

| format | what it is |
|---|---|
| `qload` | the text that IBM's dmpmqmsg (qload) unloads a queue to |
| `raw` | a file a message: an MQ image, or a body whose descriptor is given beside it |
| `mqtt` | lines of hexadecimal, one or more whole MQTT packets on each |
| `rendezvous` | lines of hexadecimal, one tibrvMsg on each |

Readers are pure: lines or bytes in, entries out, one message in memory at a time. What they cannot read is an entry
too, and they go on behind it.
"""

"""Captures of other programs, read as physical messages.

| format | content |
|---|---|
| `qload` | the text to which IBM's dmpmqmsg (qload) unloads a queue |
| `raw` | one message per file: an MQ image, or a body with its descriptor in a second file |
| `mqtt` | lines of hexadecimal, one or more whole MQTT packets on each |
| `rendezvous` | lines of hexadecimal, one tibrvMsg on each |

Readers are pure: they take lines or bytes, yield entries and hold one message in memory at a time. They yield an entry
for input that they cannot read, and continue after it.
"""

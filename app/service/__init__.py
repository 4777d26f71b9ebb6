"""The service: the stream from brokers to finished attachments and back, inside one process.

| module | does |
|---|---|
| `stream` | builds the stages and queues of the way in: read it first |
| `gateway` | builds everything, starts and stops it |
| `receiving` | receivers -> journal; messages are acknowledged once they are on disk |
| `assembling` | journal -> attachments, in this process or by a job on Spark |
| `finishing` | complete attachments -> content |
| `content` | reads finished content, detects damage, copies it to the content store |
| `sending`, `uploads` | messages of clients -> brokers; pieces of large files that wait for their message |
| `retention` | expires unfinished attachments, removes old data |
| `quarantine`, `events` | records and copies of messages that could not be read; entries of the event log |
| `monitoring` | health, metrics, and what people look at while messages come |
| `access`, `webhooks` | who may do what; events sent to programs |
| `roles` | what a process does by its roles; elections of the keeper and of the active gateway |
| `conversion` | converts data sets in separate processes |
| `repair` | checks, repairs, records, backs up and restores |
| `tables` | reads the tables that the pipeline wrote |
| `threads`, `instance`, `context` | the threads, the name of this process, and the context that all of the above get |
"""

"""The service: the stream from brokers to finished attachments and back, inside one process.

Each step has a thread of its own with a bounded queue before it. So a slow step holds back the broker and never fills
memory: receivers -> journal -> assembly -> finishing; deliveries -> senders.

| module | does |
|---|---|
| `gateway` | builds everything, starts and stops it, and answers REST |
| `intake` | receivers -> journal; messages are acknowledged once they are on disk |
| `assembling` | journal -> attachments, in this process or by a job on Spark |
| `finishing` | complete attachments -> content |
| `content` | reads finished content, detects damage, copies it to the content store |
| `retention` | expires unfinished attachments, removes old data |
| `quarantine`, `events` | records and copies of messages that could not be read; entries of the event log |
| `archiver` | copies sealed journal segments to where others read them |
| `belonging` | checks that catalog and journal belong together, and that only one gateway uses them |
| `conversion` | converts data sets in separate processes |
| `repair` | checks, repairs, records, backs up and restores |
| `tables` | reads the tables that the pipeline wrote |
| `threads`, `context` | the threads, and the context that all of the above get |
"""

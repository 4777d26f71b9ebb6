"""Host one: the stream from a broker to finished attachments and back, inside one process.

Each step is a thread of its own with a bounded queue before it, so that a slow step holds back the broker and never
fills memory: receivers -> journal -> assembly -> finishing; deliveries -> senders.

| module | does |
|---|---|
| `gateway` | builds everything, starts and stops it, and answers what REST asks |
| `intake` | receivers -> journal, acknowledged once on disk |
| `assembling` | journal -> attachments, in this process or by a job on Spark |
| `finishing` | complete attachments -> content |
| `content` | reads finished content, watches it for damage, copies it to the content store |
| `retention` | expires what is unfinished, removes what is old |
| `quarantine`, `events` | what is kept and told of messages that could not be read; entries of the event log |
| `archiver` | copies sealed journal segments to where others read them |
| `belonging` | makes sure that catalog and journal belong together, and that one gateway has them |
| `conversion` | converts data sets in processes of their own |
| `repair` | checks, repairs, records, backs up and restores |
| `tables` | reads the tables that the pipeline wrote |
| `threads`, `context` | the threads, and what all of the above are given |
"""

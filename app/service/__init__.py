"""Host one: the stream from a broker to finished attachments and back, inside one process.

Each stage is a thread of its own with a bounded queue before it, so that a slow stage holds back the broker and never
fills memory: receivers -> journal -> assembly -> finishing; deliveries -> senders.
"""

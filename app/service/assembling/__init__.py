"""The assembly of attachments: in this process, or by a job on Spark that reads the same journal."""

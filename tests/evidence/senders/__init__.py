"""Programs that send attachments, written from the specifications alone: nothing here imports the product.

Each knows what a receiver must get of what it sends. `tests.evidence.test_independence` checks the imports.
"""

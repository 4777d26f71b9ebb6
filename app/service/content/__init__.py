"""Finished content: the places of its bytes, the detection of damage, and the copies in the content store."""

"""Decoding of captured bytes."""

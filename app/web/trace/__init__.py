"""Captured bytes explained."""

"""Sealed journal segments as Spark reads them."""

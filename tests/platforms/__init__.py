"""Servers of our own that speak as chat platforms do, and tests that run the platforms' real clients on them."""

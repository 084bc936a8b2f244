"""File, search and process operations with the root check."""

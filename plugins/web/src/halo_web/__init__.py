"""A chat page and its routes."""

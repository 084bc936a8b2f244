"""Answers from your files by rules when no model is configured."""

"""Files, search and shell for agents."""

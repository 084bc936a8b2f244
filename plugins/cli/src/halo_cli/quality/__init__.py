"""The quality scale: its rules as data, the programs that decide them, and where a plugin stands."""

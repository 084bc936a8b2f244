"""Commands for people: up, run, init, sessions, status, stop, logs."""

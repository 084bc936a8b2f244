"""Commands for people: up, run, init, sessions, status, stop, logs. The plugin adds no hook, only commands."""

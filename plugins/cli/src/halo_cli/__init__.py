"""Commands for people: up, run, init, sessions, settings, status, stop, logs. The plugin adds no hook, only commands."""

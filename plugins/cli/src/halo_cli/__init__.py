"""Commands for people, and no hook: up, run, init, sessions, settings, plugins, doctor, status, stop, logs."""

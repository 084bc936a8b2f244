"""Codecs of chat completions, responses, messages and server-sent events."""

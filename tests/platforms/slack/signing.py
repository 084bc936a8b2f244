"""The signature on what Slack sends over HTTP."""

from __future__ import annotations

import hashlib
import hmac


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """Return the header `X-Slack-Signature`; `timestamp` is in seconds.

    Source: docs.slack.dev, "Verifying requests from Slack".
    """
    base = b"v0:%d:%s" % (timestamp, body)
    return "v0=" + hmac.new(secret.encode(), base, hashlib.sha256).hexdigest()


def signed(secret: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the two headers that sign `body`."""
    return {"X-Slack-Request-Timestamp": str(timestamp), "X-Slack-Signature": signature(secret, timestamp, body)}

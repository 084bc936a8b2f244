"""Keeps aiohttp to the addresses that the host's egress allows: names as they are dialled, and every hop."""

from .client import Resolver, middleware

__all__ = ["Resolver", "middleware"]

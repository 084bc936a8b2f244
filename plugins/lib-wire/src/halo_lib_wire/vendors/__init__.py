"""Model vendors over HTTP: manifests, settings, keys and one provider for each; with the extra `vendors`.

A plugin describes its `Family` and makes a `VendorProvider` of each manifest. This is the one part of the library that
does I/O, and only when a provider is asked to answer.
"""

from .endpoint import Endpoint, parse_endpoint
from .family import Family, VendorSettings
from .manifests import Broken, Manifest, load_manifests
from .offers import KEYED, LOCAL, KeyedOffers, distinct, keyed_offers, not_ready, ready
from .provider import BrokenProvider, VendorProvider
from .transport import Transport
from .vendor import Key, Vendor
from .wire import Decoder, Exchange, Wire

__all__ = [
    "KEYED",
    "LOCAL",
    "Broken",
    "BrokenProvider",
    "Decoder",
    "Endpoint",
    "Exchange",
    "Family",
    "Key",
    "KeyedOffers",
    "Manifest",
    "Transport",
    "Vendor",
    "VendorProvider",
    "VendorSettings",
    "Wire",
    "distinct",
    "keyed_offers",
    "load_manifests",
    "not_ready",
    "parse_endpoint",
    "ready",
]

"""HTTP routes over the host, described by OpenAPI."""

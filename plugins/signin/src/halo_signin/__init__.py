"""Password and users: who may use the pages of this server."""

"""The object storage behind offloading: where values are kept that do not go to the server."""

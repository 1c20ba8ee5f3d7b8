"""The task store and the asset store, as pipelines use them."""

"""Task stores and asset stores, as pipelines use them."""

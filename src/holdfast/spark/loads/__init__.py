"""Incremental loads: only the rows that are new since an asset's watermark."""

"""Loads of only what is new since an asset's watermark."""

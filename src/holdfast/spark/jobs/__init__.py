"""Applications that tasks submit to a cluster, and the drivers that run them."""

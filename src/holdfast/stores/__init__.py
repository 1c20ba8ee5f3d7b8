"""The stores: each answers the commands of `holdfast.command`."""

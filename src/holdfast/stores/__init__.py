"""The stores: each answers the commands of `holdfast.commands.entries`."""

"""Stores: each executes the commands of `holdfast.commands.entries`."""

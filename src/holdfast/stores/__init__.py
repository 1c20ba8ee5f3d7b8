"""Stores: each executes commands of `holdfast.commands`."""

"""What goes by time: expired task entries, and the state of assets that nobody declares."""

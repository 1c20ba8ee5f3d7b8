"""What the services scheduler and triggerer share."""

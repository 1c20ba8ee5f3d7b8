"""The Spark data source `holdfast` where Holdfast is installed: on databases, and in sessions."""

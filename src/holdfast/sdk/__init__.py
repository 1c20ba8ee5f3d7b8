"""What pipeline authors import."""

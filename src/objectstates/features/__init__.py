"""What frames and tracklets look like, as vectors."""

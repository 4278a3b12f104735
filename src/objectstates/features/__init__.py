"""What frames, tracklets and chunks look like and how they move, as vectors."""

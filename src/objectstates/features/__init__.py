"""From frames to features: the appearance of things, and motion."""

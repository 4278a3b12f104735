"""The review of a discovery: look at the clips, correct some, and see the answers change."""

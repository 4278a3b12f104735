"""Whole jobs for users: discover in a workspace, inspect what was written. No printing."""

"""Whether the verdict on a discovery, and its confidence per clip, can be trusted."""

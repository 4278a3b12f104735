"""Whether episodes that do not reach state 2 are recognised, and how good the progress is."""

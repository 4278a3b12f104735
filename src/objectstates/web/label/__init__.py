"""The page of ``objectstates label``: draw a few boxes, get a detector."""

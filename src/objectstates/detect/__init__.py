"""Detection behind one small protocol; one file per kind of detector."""

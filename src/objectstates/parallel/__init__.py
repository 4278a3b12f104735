"""Running work in threads, processes or on a Ray cluster; nothing about videos or solvers."""

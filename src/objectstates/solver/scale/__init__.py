"""The solver for problems that do not fit in memory: shards on disk, in processes or on GPUs."""

"""The vocabulary: jobs, throughput models, clusters, overheads, units, and problems in words."""

"""The run panel: start, follow, stop, resume and list the runs of one job type."""

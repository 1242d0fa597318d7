"""The Batch tab: judge many edits in a run, and look at the results as a table."""

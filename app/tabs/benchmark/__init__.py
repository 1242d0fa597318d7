"""The Benchmark tab: judge a labelled task, read its numbers, look at single questions, compare two rows."""

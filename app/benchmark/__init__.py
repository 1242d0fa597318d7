"""The Benchmark tab: judge a labeled task, read its results, inspect single questions, compare two rows."""

"""The Vote tab: pairs in random order, a vote, and only then the answer of the judge."""

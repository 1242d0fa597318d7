"""The Library tab: entries, routing, checks, comparison, versions on the Hub."""

"""Text that goes into Libraries and onto the Hub. Files only: a person may edit them without touching code."""

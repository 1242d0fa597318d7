"""The Score tab: compare edits, read why, say what people would prefer."""

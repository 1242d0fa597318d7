"""One module per tab, and the parts that tabs share."""

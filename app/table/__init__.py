"""Results as a table: filtered, sorted, opened row by row, selected and exported; for every tab that has results."""

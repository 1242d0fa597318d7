"""Grows a Library from preferences: findings, proposals, a gate, and the loop that spends the budget."""

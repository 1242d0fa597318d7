"""The Evolve tab: grow a Library from preferences, watch it happen, correct labels, publish what came of it."""

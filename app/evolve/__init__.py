"""The Evolve tab: evolve a Library from preferences, correct labels, publish versions."""

"""The orchestrator without a model: rules that work out from measurements which edit would help."""

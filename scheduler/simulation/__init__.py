"""The discrete-event simulator, its traffic, metrics and a lower bound."""

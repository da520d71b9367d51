"""The answer to a question: the published point, the design to build and the Pareto front."""

"""The pages, figures and traces that the commands write, and remarks that stand beside numbers."""

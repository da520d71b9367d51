"""The pages, figures and traces that the commands write."""

"""Drawing for reports."""

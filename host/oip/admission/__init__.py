"""Admission to a server: tokens, certificates, and bounds of what one client may take."""

"""Logs, spans, metrics and live page of a server; none of them may stop it."""

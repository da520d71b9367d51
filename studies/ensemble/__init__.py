"""Ensembles of networks on many devices (Pochelu et al.), statement by statement."""

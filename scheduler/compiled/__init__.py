"""The simulator and the policies compiled by Numba."""

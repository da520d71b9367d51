"""The workshop: what the tree computes of itself, what of it is stale, and how it is made again.

`python -m workshop.stale` reads sources alone and needs nothing but Python; `python -m workshop.refresh` runs
what is stale in the environment of `make test`.
"""

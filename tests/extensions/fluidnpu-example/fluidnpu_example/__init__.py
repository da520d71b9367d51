"""One extension of each kind, as docs/how-to/extend.md shows them."""

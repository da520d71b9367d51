"""Clock, reset and bus models of all benches, and the benches of the common cells."""

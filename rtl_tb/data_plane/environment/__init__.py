"""The environment of the data plane in simulation: random jobs, networks, a host, a memory and buses."""

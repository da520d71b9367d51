"""The transports of the protocol: REST and gRPC, and their descriptions."""

"""The transports of the protocol: REST and gRPC, their bodies, messages and descriptions."""

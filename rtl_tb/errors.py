"""Errors of the RTL room as one tree. ValueError is the caller's fault, RuntimeError the world's.

    RtlError
    ├── ParameterError (ValueError)     a module refuses its parameters, or a bench what it is to play
    ├── SimulationError (RuntimeError)  a model did not build, a bench failed, or a run broke a bus rule
    └── ProofError (RuntimeError)       the prover could not be run, or a seeded bug no longer fits its source

>>> isinstance(SimulationError("failed"), RuntimeError)
True
"""


class RtlError(Exception):
    """Base of everything the RTL room raises."""


class ParameterError(RtlError, ValueError):
    """A module refuses its parameters at elaboration, or a bench cannot play what was asked for."""


class SimulationError(RtlError, RuntimeError):
    """A model did not build, a bench failed, or a run broke a rule; the message says which, or ends with the
    log's tail.
    """


class ProofError(RtlError, RuntimeError):
    """The prover could not be run, or a seeded bug no longer fits the source it was made for."""

"""The errors of this room as one tree: a ValueError is the caller's fault, a RuntimeError the world's.

HlsError
├── FormatError (ValueError)      a bit format contradicts itself, or values do not fit it
├── DescriptorError (ValueError)  a descriptor holds values that the hardware would refuse
├── FbcbError (ValueError)        an FBCB word asks for more than the hardware can do
├── LayoutError (ValueError)      weights, biases or stream words have the wrong shape
├── ProgramError (ValueError)     a network and a design make no program, or a file is none
├── StreamError (ValueError)      streams contradict their commands, or a layer cannot run
├── ProjectError (ValueError)     a project cannot be rendered or written as asked
├── ReportError (ValueError)      a tool's report is missing, malformed or of another design
├── TclError (ValueError)         a Tcl text cannot be split into commands
└── CsimError (RuntimeError)      C simulation cannot run here, or the simulated core failed
"""

from __future__ import annotations


class HlsError(Exception):
    """Base of all errors of this room; the message is one sentence."""


class FormatError(HlsError, ValueError):
    """A format contradicts itself, or values do not fit it."""


class DescriptorError(HlsError, ValueError):
    """A descriptor holds values that the hardware would refuse."""


class FbcbError(HlsError, ValueError):
    """An FBCB word asks for more than the hardware can do."""


class LayoutError(HlsError, ValueError):
    """Weights, biases or stream words do not have the shape that a layout needs."""


class ProgramError(HlsError, ValueError):
    """A network and a design do not make a program, or a file does not hold one."""


class StreamError(HlsError, ValueError):
    """Streams contradict their commands, or a layer cannot run as asked."""


class ProjectError(HlsError, ValueError):
    """A project cannot be rendered or written as asked."""


class ReportError(HlsError, ValueError):
    """A report is missing, malformed or of another design."""


class TclError(HlsError, ValueError):
    """A Tcl text cannot be split into commands: a brace, bracket or quote is not closed."""


class CsimError(HlsError, RuntimeError):
    """C simulation cannot run here, or the simulated core failed."""
